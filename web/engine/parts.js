/** Bytes of a part: what is fetched, hashed, stored and kept in memory at a time. */
export const PART = 16 << 20;

/** How many parts a file of `size` bytes has. */
export function partCount(size) {
  return Math.ceil(size / PART);
}

/** Bytes of part `index` of a file of `size` bytes. */
export function partLength(index, size) {
  return Math.min(PART, size - index * PART);
}
