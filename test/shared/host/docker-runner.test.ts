import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { DockerRunner } from '../../../shared/host/runners/docker-runner.ts';
import { type StandInDocker, standInDocker } from '../../support/stand-in-docker.ts';

const { signal } = new AbortController();

describe('containers of workers', () => {
  const { PATH } = process.env;
  let folder: string;
  let docker: StandInDocker;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'docker-'));
    docker = standInDocker(folder);
    process.env.PATH = `${docker.bin}:${PATH}`;
    process.env.STAND_IN_ENTRY = 'echo';
  });

  afterEach(() => {
    process.env.PATH = PATH;
    delete process.env.STAND_IN_ENTRY;
    rmSync(folder, { recursive: true, force: true });
  });

  function runner(): DockerRunner {
    const volumes = [
      { path: '/var/lib/stator/weights/a', isReadOnly: true },
      { path: '/var/lib/stator/compile/a', isReadOnly: false },
    ];
    return new DockerRunner({ image: 'workers@sha256:0f3c', clock: systemClock, drainSecs: 899.5, volumes });
  }

  it('share network, memory and devices with the machine, and have a minute more than the drain', async () => {
    const env = { DYN_SYSTEM_PORT: '9101', STATOR_PLANE_TOKEN: 'a secret' };
    const args = ['--engine=vllm', '--model', 's3://b/m/'];
    const running = await runner().start({ index: 1, args, env, gpus: [2, 3] }, () => {});
    expect(await running.ended).toMatchObject({ code: 0 });
    const run = docker.calls().find(([verb]) => verb === 'run');
    expect(run).toEqual([
      ...['run', '--detach', '--name', 'stator-worker-1', '--log-driver', 'local'],
      ...['--gpus', '"device=2,3"', '--network', 'host', '--ipc', 'host', '--ulimit', 'memlock=-1'],
      ...['--stop-timeout', '960', '--env', 'DYN_SYSTEM_PORT', '--env', 'STATOR_PLANE_TOKEN'],
      ...['--volume', '/var/lib/stator/weights/a:/var/lib/stator/weights/a:ro'],
      ...['--volume', '/var/lib/stator/compile/a:/var/lib/stator/compile/a'],
      ...['workers@sha256:0f3c', 'worker', '--engine=vllm', '--model', 's3://b/m/'],
    ]);
  });

  it('fetch their image once, and say why they cannot', async () => {
    docker.failPulls(1);
    await expect(runner().prepare(() => {}, signal)).rejects.toThrow(
      'docker pull workers@sha256:0f3c: toomanyrequests: slow down',
    );
    let moved = 0;
    await runner().prepare(() => moved++, signal);
    expect(moved).toBeGreaterThan(0);
    await runner().prepare(() => {}, signal);
    expect(docker.calls().filter(([verb]) => verb === 'pull')).toHaveLength(2);
  });

  it('are neither told nor taken for gone while the daemon does not answer', async () => {
    process.env.STAND_IN_ENTRY = `${process.execPath} -e setInterval(()=>{},1000)`;
    const running = await runner().start({ index: 0, args: [], env: {}, gpus: [] }, () => {});
    docker.setDaemon(false);
    const away = 'docker inspect stator-worker-0: Cannot connect to the Docker daemon';
    await expect(running.signal('SIGTERM')).rejects.toThrow(away);
    await expect(runner().adopt(0, () => {})).rejects.toThrow(away);
    docker.setDaemon(true);
    await running.signal('SIGKILL');
    expect(await running.ended).toMatchObject({ code: 137 });
    await running.signal('SIGTERM'); // it has ended: nothing to do
  });
});
