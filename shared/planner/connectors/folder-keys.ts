import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { VirtualKeys } from './virtual-connector.ts';

const NAMES = ['num_prefill_workers', 'num_decode_workers', 'decision_id', 'scaled_decision_id'] as const;

/**
 * Keys as files of a folder, `v1/<namespace>/planner/<key>` as they are called in etcd: a script reads the numbers once it sees
 * another `decision_id`, which is written last, and acknowledges by writing `scaled_decision_id`.
 */
export class FolderKeys implements VirtualKeys {
  readonly folder: string;

  constructor(root: string, namespace: string) {
    this.folder = join(root, 'v1', encodeURIComponent(namespace), 'planner');
  }

  async read(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const values: Record<string, string> = {};
    for (const name of NAMES) {
      signal.throwIfAborted();
      const text = await readFile(join(this.folder, name), 'utf8').catch(absent);
      if (text !== undefined) values[name] = text.trim();
    }
    return values;
  }

  async write(values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    await mkdir(this.folder, { recursive: true });
    const ordered = Object.entries(values).toSorted(([one], [other]) => rankOf(one) - rankOf(other));
    for (const [name, value] of ordered) {
      signal.throwIfAborted();
      const path = join(this.folder, name);
      await writeFile(`${path}.tmp`, `${value}\n`);
      await rename(`${path}.tmp`, path);
    }
  }
}

function rankOf(name: string): number {
  return (NAMES as readonly string[]).indexOf(name);
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
