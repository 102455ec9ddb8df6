/** Files that are dropped anywhere on the page. */

/** @param {(files: File[]) => void} take */
export function listenToDrops(take) {
  const { classList } = document.body;
  addEventListener("dragover", (event) => {
    classList.toggle("dragging", [...event.dataTransfer.types].includes("Files"));
  });
  addEventListener("dragleave", (event) => event.relatedTarget || classList.remove("dragging"));
  addEventListener("drop", (event) => {
    classList.remove("dragging");
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}
