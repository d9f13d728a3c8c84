import { createHash } from 'node:crypto';

/** Checksum of bytes that come in parts. */
export interface FileDigest {
  update(bytes: Uint8Array): void;
  /** Returns the checksum of all bytes, as cards write it. */
  checksum(): string;
}

const OPENERS: Readonly<Record<string, () => Promise<FileDigest>>> = {
  sha256: async () => {
    const hash = createHash('sha256');
    return { update: (bytes) => void hash.update(bytes), checksum: () => `sha256:${hash.digest('hex')}` };
  },
  // Cards of Dynamo have no other kind, and Node's crypto does not have it. Its code loads with the first such card.
  blake3: async () => {
    const { createBLAKE3 } = await import('./blake3.ts');
    const hash = (await createBLAKE3()).init();
    return { update: (bytes) => void hash.update(bytes), checksum: () => `blake3:${hash.digest('hex')}` };
  },
};

/**
 * Opens a digest of the kind that `checksum` begins with: `sha256:` or `blake3:`. For another kind it opens one of
 * SHA-256, which then equals no checksum of that kind.
 */
export function openDigest(checksum: string): Promise<FileDigest> {
  const kind = checksum.slice(0, Math.max(0, checksum.indexOf(':')));
  const open = Object.hasOwn(OPENERS, kind) ? OPENERS[kind] : OPENERS.sha256;
  return (open as () => Promise<FileDigest>)();
}
