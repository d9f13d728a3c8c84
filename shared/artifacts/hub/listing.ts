import { type HubModel, nameOfHubModel } from '../../config/index.ts';
import { asRecord } from '../../records/index.ts';
import { HubFault } from './faults.ts';

/** A file of a model on the hub. */
export interface HubFile {
  /** Path in the repository. */
  readonly name: string;
  /** Size in bytes. */
  readonly size: number;
  /** Git's name of the content: for a large file, of the pointer to it. */
  readonly blobId: string;
  /** SHA-256 of a large file; undefined for a file in the repository itself. */
  readonly sha256: string | undefined;
}

/** The files of a model at one commit. */
export interface HubListing {
  readonly commit: string;
  /** Paths of all files. */
  readonly names: readonly string[];
  /** The files whose size and checksum the hub names, by their paths. */
  readonly files: ReadonlyMap<string, HubFile>;
}

const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/**
 * Reads the answer of `/api/models/ORG/NAME/revision/REVISION?blobs=true`.
 * @throws HubFault if the answer is not of that form
 */
export function readListing(text: string, endpoint: string, model: HubModel): HubListing {
  const answer = parse(text);
  const { sha, siblings } = answer ?? {};
  if (typeof sha !== 'string' || !COMMIT.test(sha) || !Array.isArray(siblings)) {
    throw new HubFault(`${endpoint} does not answer as a hub of models when asked for ${nameOfHubModel(model)}`);
  }
  const entries = siblings.map(asRecord);
  const names = entries.flatMap((entry) => (typeof entry?.rfilename === 'string' ? [entry.rfilename] : []));
  const files = entries.flatMap((entry) => readFile(entry) ?? []);
  return { commit: sha, names, files: new Map(files.map((file) => [file.name, file])) };
}

function parse(text: string) {
  try {
    return asRecord(JSON.parse(text));
  } catch {
    return undefined; // the caller says that it is not the expected answer
  }
}

function readFile(entry: ReturnType<typeof asRecord>): HubFile | undefined {
  const { rfilename: name, size: plainSize, blobId, lfs } = entry ?? {};
  const { sha256, size: largeSize } = asRecord(lfs) ?? {};
  const size = largeSize ?? plainSize;
  if (typeof name !== 'string' || !Number.isSafeInteger(size) || Number(size) < 0) return undefined;
  if (typeof blobId !== 'string' || !COMMIT.test(blobId)) return undefined;
  if (sha256 !== undefined && (typeof sha256 !== 'string' || !SHA256.test(sha256))) return undefined;
  return { name, size: Number(size), blobId, sha256 };
}

/** Returns the name of a file's content in the cache, as Hugging Face's own tools name it. */
export function etagOf({ blobId, sha256 }: HubFile): string {
  return sha256 ?? blobId;
}
