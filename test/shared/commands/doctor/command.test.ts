import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runDoctor } from '../../../../shared/commands/doctor/command.ts';
import type { Discovery } from '../../../../shared/discovery/index.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { createDiscovery } from '../../../support/create-discovery.ts';
import { spawnNode } from '../../../support/index.ts';

const PATH = 'ns/backend/generate/a';
const DYNAMO = 'ns/backend/generate/b';

describe('stator doctor', () => {
  let folder: string;
  let listener: Server;
  let worker: Discovery;
  let env: Readonly<Record<string, string>>;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'doctor-'));
    env = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: folder };
    listener = createServer((socket) => socket.end());
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    worker = await createDiscovery({ backend: 'file', rootPath: folder });
    await worker.put(endpointAt(PATH, `127.0.0.1:${(listener.address() as AddressInfo).port}`));
    await worker.put(modelAt(PATH));
  });
  afterEach(async () => {
    await worker.close();
    listener.close();
    rmSync(folder, { recursive: true });
  });

  it('says how to start if everything works', async () => {
    const text = await runDoctor(['--', 'python', '-m', 'dynamo.frontend', '--http-port=9'], env, () => {});
    expect(text).toContain(`ok       discovery file in ${folder}: 1 endpoint, 1 model card, 0 event channels\n`);
    expect(text).toContain('ok       model Tiny/Model-1.0: 1 worker (1 of Stator), aggregated');
    expect(text).toContain('ok       addresses of workers: 1 tried, all reached\n');
    expect(text).toMatch(
      /\n3 ok, \d+ differ, 0 will not work\nStart: stator frontend --http-port=9 --event-plane=zmq\n$/,
    );
  });

  it('prints what does not work, then fails', async () => {
    listener.close();
    const printed: string[] = [];
    const run = runDoctor([], env, (text) => printed.push(text));
    await expect(run).rejects.toThrow(/^1 of \d+ findings keep the deployment from working with Stator$/);
    expect(printed.join()).toMatch(/^fails {4}worker at 127.0.0.1:\d+: cannot be reached: .*ECONNREFUSED.* -> if the/m);
    expect(printed.join()).not.toContain('Start:');
  });

  it('says what works beside a worker that has registered no address', async () => {
    await worker.put(endpointAt(PATH, 'h:99999'));
    const printed: string[] = [];
    await expect(runDoctor([], env, (text) => printed.push(text))).rejects.toThrow(/^1 of \d+ findings/);
    expect(printed.join()).toContain('fails    worker at h:99999: cannot be reached: the address is not HOST:PORT');
    expect(printed.join()).toContain('ok       model Tiny/Model-1.0: 1 worker');
  });

  it('looks at the fleet of a planner as a frontend does', async () => {
    await worker.put({ ...endpointAt(DYNAMO), wire: 'dynamo', transport: endpointAt(PATH).transport });
    await worker.put({ ...modelAt(DYNAMO), wire: 'dynamo' });
    const printed: string[] = [];
    const run = runDoctor(['--', 'python', '-m', 'dynamo.planner'], env, (text) => printed.push(text));
    await run.catch(() => {}); // the address of its worker is not open
    expect(printed.join()).toContain('ok       connections of workers:');
  });

  it('looks for the KV events that a router needs', async () => {
    const text = await runDoctor(['--', 'python', '-m', 'dynamo.router'], env, () => {});
    expect(text).toContain('differs  KV events: no worker publishes them');
    expect(text).toContain('\nStart: stator router --event-plane=zmq\n');
  });

  it('shows no password of etcd', async () => {
    const etcd = { DYN_DISCOVERY_BACKEND: 'etcd', ETCD_ENDPOINTS: 'http://me:hidden@127.0.0.1:1' };
    const printed: string[] = [];
    await expect(runDoctor(['--json'], etcd, (text) => printed.push(text))).rejects.toThrow('keep the deployment');
    expect(printed.join()).toContain('"about": "discovery etcd at http://me:***@127.0.0.1:1"');
    expect(printed.join()).not.toContain('hidden');
  });

  it('says why a model would not be served by a frontend that leaves chats to an engine', async () => {
    const printed: string[] = [];
    const line = ['--', 'python', '-m', 'dynamo.frontend', '--dyn-chat-processor=vllm'];
    await expect(runDoctor(line, env, (text) => printed.push(text))).rejects.toThrow(
      'keep the deployment from working',
    );
    expect(printed.join()).toMatch(
      /^fails {4}model Tiny\/Model-1.0: 1 worker .*; not served \(its workers do not pass/m,
    );
  });

  it('looks at no folder that is not there, and makes none', async () => {
    const printed: string[] = [];
    const away = join(folder, 'away');
    const run = runDoctor([], { ...env, DYN_FILE_KV: away }, (text) => printed.push(text));
    await expect(run).rejects.toThrow('keep the deployment from working');
    expect(printed.join()).toContain(`fails    discovery file in ${away}: there is no such folder`);
    const again = runDoctor([], { ...env, DYN_FILE_KV: away }, () => {});
    await expect(again).rejects.toThrow('keep the deployment from working');
  });

  it('prints the same as JSON', async () => {
    const { findings, start } = JSON.parse(await runDoctor(['--json'], env, () => {}));
    expect(findings).toContainEqual({ verdict: 'ok', about: 'addresses of workers', says: '1 tried, all reached' });
    expect(start).toBe('stator frontend --event-plane=zmq');
  });

  it.runIf(process.platform === 'linux')('reads the flags and variables of a running program', async () => {
    const program = spawnNode(
      ['-e', 'setInterval(() => {}, 1000); console.log("up")', 'dynamo.frontend', '--http-port=7'],
      { env },
    );
    await program.waitForOutput(/up/);
    const text = await runDoctor(['--pid', String(program.pid)], {}, () => {});
    await program.kill();
    expect(text).toContain(`discovery file in ${folder}`);
    expect(text).toContain('Start: stator frontend --http-port=7 --event-plane=zmq   (with ');
    expect(text).toMatch(new RegExp(`DYN_DISCOVERY_BACKEND, DYN_FILE_KV,? .*of process ${program.pid}\\)\\n$`));
  });

  it.runIf(process.platform === 'linux')('reads the empty flags of a running program', async () => {
    const flags = ['--model-name', '', '--router-mode', 'random'];
    const script = 'setInterval(() => {}, 1000); console.log("up")';
    const program = spawnNode(['-e', script, 'dynamo.frontend', ...flags], { env });
    await program.waitForOutput(/up/);
    const printed: string[] = [];
    const run = runDoctor(['--pid', String(program.pid)], {}, (text) => printed.push(text));
    await expect(run).rejects.toThrow(/^1 of 1 findings/);
    await program.kill();
    expect(printed.join()).toMatch(/^fails {4}setting: --model-name "": empty/m);
  });

  it.each([
    [['--pid', 'x'], '--pid "x": allowed: a process id'],
    [['--pid', '4194304999'], 'its command line and environment cannot be read'],
    [['--pid', '1', '--', '--http-port=1'], 'give either --pid or a command line after --'],
    [['--what'], "Unknown option '--what'"],
    [['frontend'], "Unexpected argument 'frontend'"],
    [['--', 'python', '-m', 'dynamo.replay'], 'dynamo.replay is not a program'],
  ])('refuses %j', async (argv, message) => {
    await expect(runDoctor(argv, {}, () => {})).rejects.toThrow(message);
  });
});
