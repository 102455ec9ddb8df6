/** Small things that the browser keeps for the page; where it keeps nothing, they hold as long as the page. */

const meanwhile = new Map();

/** @param {() => Storage} of looked at late, since a browser that keeps nothing may refuse even that */
function box(of) {
  return {
    /** @param {string} key @returns {string | null} */
    get(key) {
      try {
        return of().getItem(key);
      } catch {
        return meanwhile.get(key) ?? null;
      }
    },
    /** @param {string} key @param {string | null} value null for nothing */
    set(key, value) {
      try {
        if (value === null) of().removeItem(key);
        else of().setItem(key, value);
      } catch {
        meanwhile.set(key, value);
      }
    },
  };
}

/** For good. */
export const lasting = box(() => localStorage);
/** For as long as the tab is open. */
export const passing = box(() => sessionStorage);

/** @param {string} key @returns {unknown} what was kept in JSON; null where there is none, or it is damaged */
export function lastingJson(key) {
  try {
    return JSON.parse(lasting.get(key));
  } catch {
    return null;
  }
}
