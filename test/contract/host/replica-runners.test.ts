import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../shared/clock/index.ts';
import { DockerRunner } from '../../../shared/host/runners/docker-runner.ts';
import { ProcessRunner } from '../../../shared/host/runners/process-runner.ts';
import { standInDocker } from '../../support/stand-in-docker.ts';
import { type RunnerBed, testReplicaRunner, WORKER_PROGRAM } from './replica-runner.contract.ts';

function folderWithProgram(): { readonly folder: string; readonly program: string } {
  const folder = mkdtempSync(join(tmpdir(), 'runner-'));
  const program = join(folder, 'program.mjs');
  writeFileSync(program, WORKER_PROGRAM);
  return { folder, program };
}

testReplicaRunner('processes', async (): Promise<RunnerBed> => {
  const { folder, program } = folderWithProgram();
  return {
    open: () => new ProcessRunner({ folder, clock: systemClock, program: [process.execPath, program] }),
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
});

testReplicaRunner('docker', async (): Promise<RunnerBed> => {
  const { folder, program } = folderWithProgram();
  const { bin } = standInDocker(folder);
  const { PATH, STAND_IN_ENTRY } = process.env;
  process.env.PATH = `${bin}:${PATH}`;
  process.env.STAND_IN_ENTRY = `${process.execPath} ${program}`;
  return {
    open: () => new DockerRunner({ image: 'worker', clock: systemClock, drainSecs: 30, volumes: [] }),
    close: async () => {
      process.env.PATH = PATH;
      if (STAND_IN_ENTRY === undefined) delete process.env.STAND_IN_ENTRY;
      rmSync(folder, { recursive: true, force: true });
    },
  };
});
