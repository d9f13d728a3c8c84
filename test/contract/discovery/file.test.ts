import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDiscovery } from '../../support/create-discovery.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { openedHandles } from './opened-handles.ts';

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
    const options = { backend: 'file', rootPath, pollMs: 50 } as const;
    const handles = openedHandles((each) => createDiscovery({ ...options, ...each }));
    return {
      open: handles.open,
      external: {
        options,
        // A plain file where the folder was: it can be neither read nor made again.
        beginOutage: () => turnRoot(filePath),
        endOutage: () => turnRoot(storePath),
      },
      close: async () => {
        await handles.closeAll();
        await rm(folder, { recursive: true });
      },
    };
  },
  true,
);
