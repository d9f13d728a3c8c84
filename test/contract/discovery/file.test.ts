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
    return {
      async open() {
        const clock = new FreezableClock();
        const options = { rootPath, clock, ttlMs: 500, pollMs: 50, onProblem: () => {} };
        const discovery = await createDiscovery({ backend: 'file', ...options });
        opened.push(discovery);
        return { discovery, clock };
      },
      outage: {
        // A plain file where the folder was: it can be neither read nor made again.
        async begin() {
          await rename(rootPath, `${rootPath}.away`);
          await writeFile(rootPath, '');
        },
        async end() {
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
