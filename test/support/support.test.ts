import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { freePorts, hasDynamoDb, isRunning, spawnNode, spawnTypeScript, startDynamoDb, waitUntil } from './index.ts';

describe('freePorts', () => {
  it('gives each port of a row out once', async () => {
    const firsts = await Promise.all(Array.from({ length: 50 }, () => freePorts(2)));
    expect(new Set(firsts.flatMap((first) => [first, first + 1])).size).toBe(100);
    await expect(freePorts(5)).rejects.toThrow('5 ports in a row: at most 4');
  });
});

describe('spawnNode', () => {
  it('finds a line of output, passes input on and reports the exit code', async () => {
    const child = spawnNode(['-e', "console.log('ready'); process.stdin.once('data', () => process.exit(7))"]);
    await child.waitForOutput(/ready/);
    child.write('go\n');
    expect(await child.exited).toBe(7);
  });

  it('reports the output of a process that ended without the expected line', async () => {
    const child = spawnNode(['-e', "console.error('no luck'); process.exit(3)"]);
    await expect(child.waitForOutput(/ready/)).rejects.toThrow(/exit 3[\s\S]*no luck/);
  });

  it('kills a process that ignores SIGTERM', async () => {
    const child = spawnNode(['-e', "process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000)"]);
    await child.waitForOutput(/up/);
    child.signal('SIGTERM');
    await child.kill();
    expect(await child.exited).toBeNull();
  });

  it('leaves no child behind when its own process is ended by a signal, as the runner does', async () => {
    const parent = await spawnTypeScript(new URL('parent-process.ts', import.meta.url), []);
    const [, pid = ''] = await parent.waitForOutput(/child (\d+)/);
    parent.signal('SIGTERM');
    expect(await parent.exited).toBeNull();
    await waitUntil(() => !isRunning(Number(pid)));
  });
});

describe('the state of the user who runs the tests', () => {
  it('is out of reach of every process that they start', async () => {
    const own = process.env.XDG_STATE_HOME ?? '';
    expect(dirname(own)).toBe(tmpdir());
    const child = spawnNode(['-p', 'process.env.XDG_STATE_HOME']);
    await child.exited;
    expect(child.stdout().trim()).toBe(own);
  });
});

describe('waitUntil', () => {
  it('rejects at its deadline with the last failure as cause', async () => {
    const failing = waitUntil(() => Promise.reject(new Error('not yet')), { timeoutMs: 20, what: 'the impossible' });
    await expect(failing).rejects.toMatchObject({
      message: expect.stringMatching(/^not within \d+ ms: the impossible$/),
      cause: new Error('not yet'),
    });
  });
});

describe.runIf(hasDynamoDb())('startDynamoDb', () => {
  it('answers HTTP until it is stopped', async () => {
    const server = await startDynamoDb();
    expect((await fetch(server.url)).headers.get('date')).toBeTruthy();
    await server.stop();
  });
});
