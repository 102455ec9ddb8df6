/** Why a model's bytes can't be had, in one sentence for people. */
export class SourceError extends Error {
  /**
   * @param {"file" | "network" | "address" | "quota" | "request" | "in_use"} kind what sort of trouble it is
   * @param {string} message
   */
  constructor(kind, message) {
    super(message);
    this.name = "SourceError";
    this.kind = kind;
  }
}
