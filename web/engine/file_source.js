import { SourceError } from "./source_error.js";

/** A model's file on this device, as picked or dropped; its bytes are read where they are, never cached. */
export class FileSource {
  /** @param {File} file */
  constructor(file) {
    this.name = file.name;
    this.size = file.size;
    this.warnings = [];
    this._file = file;
  }

  /**
   * Exactly `length` bytes from `offset`.
   * @returns {Promise<Uint8Array>}
   */
  async read(offset, length) {
    if (!this._file) throw new SourceError("request", `${this.name} was closed: choose it again`);
    if (!(offset >= 0 && length >= 0 && offset + length <= this.size)) {
      throw new SourceError(
        "file",
        `${this.name} is truncated or damaged: bytes ${offset} to ${offset + length} were asked for and it has ` +
          `${this.size}; download it again`,
      );
    }
    try {
      return new Uint8Array(await this._file.slice(offset, offset + length).arrayBuffer());
    } catch {
      throw new SourceError("file", `${this.name} can't be read any more: it was changed or moved, choose it again`);
    }
  }

  /** There is nothing to fetch. */
  async download() {}

  /** Forgets the file. */
  close() {
    this._file = null;
  }
}
