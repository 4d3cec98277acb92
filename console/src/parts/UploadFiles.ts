/** Files that a person chose or dropped, with those in folders. */

export const SIDECAR = ".metadata.json";
const MAX_DEPTH = 64;

/** A file and its path in what was dropped. `sidecar` is the file with its metadata, if there is one beside it. */
export interface ChosenFile {
  path: string;
  file: File;
  sidecar?: File;
}

/** Files of a file chooser. */
export function chosen(files: Iterable<File>): ChosenFile[] {
  return paired([...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** Files of a drop, folders with all that is below them. Entries must be read before the event ends, which the caller does by
 * calling this in its handler. */
export function dropped(transfer: DataTransfer): Promise<ChosenFile[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return Promise.resolve(chosen(transfer.files));
  return Promise.all(entries.map((entry) => below(entry, 0))).then((found) => paired(found.flat()));
}

async function below(entry: FileSystemEntry, depth: number): Promise<ChosenFile[]> {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
    return [{ path: entry.fullPath.replace(/^\//, ""), file }];
  }
  if (!isFolder(entry) || depth > MAX_DEPTH) return [];
  const found = await Promise.all((await members(entry)).map((one) => below(one, depth + 1)));
  return found.flat();
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;

/** All members of a folder: a reader gives some at a time, and none at the end. */
async function members(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...some);
  }
}

/** Files without hidden ones; metadata files go with their document. */
function paired(files: ChosenFile[]): ChosenFile[] {
  const seen = files.filter(({ path }) => !path.split("/").some((part) => part.startsWith(".")));
  const byPath = new Map(seen.map((one) => [one.path, one.file]));
  return seen
    .filter(({ path }) => !(path.endsWith(SIDECAR) && byPath.has(path.slice(0, -SIDECAR.length))))
    .map((one) => ({ ...one, sidecar: byPath.get(one.path + SIDECAR) }));
}
