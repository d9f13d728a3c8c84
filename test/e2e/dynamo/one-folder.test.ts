import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { DYNAMO_MODEL, type DynamoProcess, hasDynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../../support/index.ts';

const CHAT = { model: DYNAMO_MODEL, messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 };
/** Dynamo's files end after ten seconds without a renewal. */
const GONE_MS_MAX = 25_000;

describe.runIf(hasDynamo())('one folder of both products', () => {
  const meeting = useMeeting('file', 'tcp');
  const fleet = useFleet();
  const dynamo = useDynamo(meeting);
  let theirs: DynamoProcess;
  let ours: StatorProcess;
  let frontend: StatorProcess;

  beforeAll(async () => {
    const cache = { STATOR_ARTIFACTS_CACHE_DIR: join(fleet.temporary, 'models') };
    [theirs, frontend] = await Promise.all([dynamo.mocker(), fleet.frontend([], { ...meeting, ...cache })]);
    await fleet.untilWorkers(frontend, 1);
  }, 120_000);

  it("has Stator's frontend fetch the files of a model from the worker of Dynamo that names them by URL", async () => {
    const response = await postJson(`${frontend.url}/v1/chat/completions`, CHAT);
    expect(response.status).toBe(200);
    const fetched = await frontend.metric('stator_artifact_reads_total', 'source="worker"', 'outcome="fetched"');
    expect(fetched).toBeGreaterThanOrEqual(3); // configuration, tokenizer and its configuration
  });

  it('has workers of both products serve one model together', async () => {
    ours = await fleet.worker([], meeting);
    await fleet.untilWorkers(frontend, 2);
    const answered = (): Promise<number> =>
      ours.metric('dynamo_component_requests_total', 'dynamo_endpoint="generate"');
    for (let sent = 0; sent < 4; sent++) {
      expect((await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).status).toBe(200);
    }
    expect(await answered()).toBe(2); // round-robin: the worker of Dynamo had the others
  });

  it("shows Dynamo's frontend its own workers only, which reports no file that it cannot read", async () => {
    const { url, stdout, stderr } = await dynamo.frontend();
    const served = async (): Promise<boolean> => (await postJson(`${url}/v1/chat/completions`, CHAT)).ok;
    await waitUntil(served, { timeoutMs: 60_000, what: "an answer through Dynamo's frontend" });
    const { instances } = (await (await fetch(`${url}/health`)).json()) as { readonly instances: readonly Named[] };
    expect(instances.filter(({ endpoint }) => endpoint === 'generate')).toHaveLength(1);
    expect(stdout() + stderr()).not.toMatch(/failed to parse/i);
  });

  it('forgets a worker of Dynamo that was killed, whose files Dynamo itself removes', async () => {
    await theirs.kill();
    await waitUntil(async () => (await workersOf(frontend)) === 1, { timeoutMs: GONE_MS_MAX, pollMs: 200 });
    expect((await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).status).toBe(200);
    const cards = join(meeting.DYN_FILE_KV ?? '', 'v1/mdc');
    await waitUntil(() => readdirSync(cards).length === 0, { timeoutMs: GONE_MS_MAX, pollMs: 200 }); // by its frontend
  });
});

interface Named {
  readonly endpoint: string;
}

/** Returns the number of workers that a frontend lists in `/health`. */
async function workersOf({ url }: StatorProcess): Promise<number> {
  const { instances = [] } = (await (await fetch(`${url}/health`)).json()) as { readonly instances?: readonly Named[] };
  return instances.filter(({ endpoint }) => endpoint === 'generate').length;
}
