import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { FreezableClock } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';

describeDiscovery(
  'file',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stator-discovery-'));
    const rootPath = join(folder, 'root');
    const [storePath, filePath] = [join(folder, 'store'), join(folder, 'file')];
    await mkdir(storePath);
    await writeFile(filePath, '');
    await symlink(storePath, rootPath);
    /** Turns the root in one step: in a gap, a process that renews would make a folder of its own. */
    const turnRoot = async (target: string): Promise<void> => {
      const nextPath = `${rootPath}.next`;
      await symlink(target, nextPath);
      await rename(nextPath, rootPath);
    };
    const opened: Discovery[] = [];
    const options = { backend: 'file', rootPath, pollMs: 50 } as const;
    return {
      async open(ttlMs = 10_000) {
        const clock = new FreezableClock();
        const problems: Error[] = [];
        const discovery = await createDiscovery({
          ...options,
          ttlMs,
          clock,
          onProblem: (problem) => problems.push(problem),
        });
        opened.push(discovery);
        return { discovery, clock, problems };
      },
      external: {
        options,
        // A plain file where the folder was: it can be neither read nor made again.
        beginOutage: () => turnRoot(filePath),
        endOutage: () => turnRoot(storePath),
      },
      close: async () => {
        await Promise.all(opened.map((discovery) => discovery.close()));
        await rm(folder, { recursive: true });
      },
    };
  },
  true,
);
