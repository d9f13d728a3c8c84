import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDiscovery, type Discovery } from '../../../shared/discovery/index.ts';
import { FreezableClock } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';

describeDiscovery(
  'file',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stator-discovery-'));
    const rootPath = join(folder, 'root');
    const opened: Discovery[] = [];
    const options = { backend: 'file', rootPath, ttlMs: 500, pollMs: 50 } as const;
    return {
      async open() {
        const clock = new FreezableClock();
        const discovery = await createDiscovery({ ...options, clock, onProblem: () => {} });
        opened.push(discovery);
        return { discovery, clock };
      },
      external: {
        options,
        // A plain file where the folder was: it can be neither read nor made again.
        async beginOutage() {
          await rename(rootPath, `${rootPath}.away`);
          await writeFile(rootPath, '');
        },
        async endOutage() {
          await rm(rootPath);
          await rename(`${rootPath}.away`, rootPath);
        },
      },
      close: async () => {
        await Promise.all(opened.map((discovery) => discovery.close()));
        await rm(folder, { recursive: true });
      },
    };
  },
  true,
);
