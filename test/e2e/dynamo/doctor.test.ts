import { beforeAll, describe, expect, it } from 'vitest';
import { canMeet, type DynamoProcess, hasDynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { readChat, runStator, useFleet, waitUntil } from '../../support/index.ts';

const CHAT = { model: 'stator-mini', messages: [{ role: 'user', content: 'hello' }], max_tokens: 8, ignore_eos: true };
const STORE = 'etcd';
/** Time to live of the workers' records: longer than a doctor takes on a slow machine. */
const LEASE_TTL_SECS = 90;

describe.runIf(hasDynamo() && canMeet(STORE, 'tcp'))('stator doctor beside a deployment of Dynamo', () => {
  const meeting = useMeeting(STORE, 'tcp');
  const fleet = useFleet();
  const dynamo = useDynamo(meeting);
  let workers: readonly DynamoProcess[];

  beforeAll(async () => {
    // Two processes, because frontends of Dynamo 1.5 need a status server of each worker, which has the model's files.
    const env = { ETCD_LEASE_TTL: String(LEASE_TTL_SECS) };
    workers = await Promise.all([dynamo.mocker({ env }), dynamo.mocker({ env })]);
  }, 120_000);

  it('prints a command that serves the workers in place of the frontend it looked at', async () => {
    const theirs = await dynamo.frontend(['--router-mode', 'kv']);
    await theirs.waitForOutput(/Chat completions is ready/, 60_000);
    const { code, stdout } = await runStator(['doctor', '--pid', String(theirs.pid)]);
    expect(stdout).toContain('ok       model stator-mini: 2 workers (2 of Dynamo), aggregated');
    expect(stdout).toContain('ok       addresses of workers:');
    expect(stdout).toMatch(/ok {7}files of stator-mini: \d+ found/);
    expect(stdout).toContain('ok       KV events: 2 publishers');
    expect(code).toBe(0);
    const [, line = ''] = /^Start: stator frontend (.*?) {3}\(with .* of process \d+\)$/m.exec(stdout) ?? [];
    expect(line).toContain('--router-mode kv');
    await theirs.kill();
    const frontend = await fleet.frontend(line.split(' '), meeting); // its own --http-port comes last
    await fleet.untilWorkers(frontend, 2);
    expect(await readChat(frontend.url, CHAT)).toMatchObject({ finishReason: 'length', isDone: true });
  });

  it('names the workers that were killed, and the files that went with them', async () => {
    await Promise.all(workers.map((worker) => worker.kill()));
    await waitUntil(
      async () => {
        const { code, stdout } = await runStator(['doctor', '--', 'python', '-m', 'dynamo.frontend'], meeting);
        return code === 1 && stdout.includes('cannot be reached');
      },
      { timeoutMs: 60_000, pollMs: 0, what: 'a doctor that misses the workers' },
    );
  }, 90_000);
});
