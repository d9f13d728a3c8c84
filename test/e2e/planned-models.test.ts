import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SqsPlannerQueue } from '../../shared/planes/index.ts';
import { DynamoDbHeldNotes } from '../../shared/planner/index.ts';
import { createTable, hasSqs, postJson, type SqsServer, startSqs, waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

const NEVER = new AbortController().signal;
/** Group of the model in the planner's queue and table. */
const GROUP = `prod#${MODEL}`;
const HELD = { STATOR_PLANNED_MODELS: GROUP, STATOR_HOLD_TIMEOUT: '120' };
const CHAT = { model: MODEL, max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] };

describe.runIf(hasFunctionBed() && hasSqs())('a model that no worker has ever served', () => {
  let bed: FunctionBed;
  let sqs: SqsServer;
  let queue: SqsPlannerQueue;
  let notes: DynamoDbHeldNotes;
  let front: LambdaRuntime;
  let frontendUrl: string;

  beforeAll(async () => {
    [bed, sqs] = await Promise.all([FunctionBed.open(), startSqs()]);
    await createTable({ tableName: 'plans', endpoint: bed.server.url });
    const queueUrl = await sqs.createQueue('planner-events');
    queue = await SqsPlannerQueue.open({ queueUrl, endpoint: sqs.url });
    notes = await DynamoDbHeldNotes.open({ tableName: 'plans', endpoint: bed.server.url });
    const toQueue = { STATOR_PLANNER_QUEUE_URL: queueUrl, STATOR_SQS_ENDPOINT: sqs.url };
    const credentials = { AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local', AWS_REGION: 'us-east-1' };
    const frontend = bed.spawn(['frontend', '--http-port=0'], { env: { ...HELD, ...toQueue, ...credentials } });
    const [, url = ''] = await frontend.waitForOutput(/(http:\/\/[^\s"]+)/, 30_000);
    frontendUrl = url;
    // Another model is served, so that the view of the fleet has models, and the function shows only those asked for.
    await bed.startWorker({ flags: ['--model-name=another'] });
    front = await bed.startFunction({ ...HELD, STATOR_AUTH: 'off', STATOR_PLANNER_TABLE: 'plans' });
    const another = () => postJson(`${front.url}/v1/chat/completions`, { ...CHAT, model: 'another' });
    await waitUntil(async () => (await another()).status === 200, { what: 'the other model', timeoutMs: 60_000 });
    await front.idle(); // until then Lambda refuses the next request
  }, 180_000);
  afterAll(async () => {
    await front?.stop();
    await Promise.all([queue?.close(), notes?.close()]);
    await Promise.all([sqs?.stop(), bed?.close()]);
  });

  it('has its first requests held at the function and the frontend until the planner has started a worker', {
    timeout: 150_000,
  }, async () => {
    const urls = [front.url, frontendUrl];
    for (const url of urls) {
      const unknown = await postJson(`${url}/v1/chat/completions`, { ...CHAT, model: 'nobody' });
      expect(unknown.status).toBe(404);
    }
    await front.idle();
    const asked = urls.map((url) => postJson(`${url}/v1/chat/completions`, CHAT));
    await waitUntil(async () => (await notes.live(GROUP, NEVER)).length > 0, { what: 'the note of the function' });
    expect(await notes.live(GROUP, NEVER)).toMatchObject([{ namespace: 'prod', model: MODEL, count: 1 }]);
    const messages = await queue.receive({ waitMs: 10_000, hiddenMs: 60_000 }, NEVER);
    expect(messages.map(({ group, body }) => [group, JSON.parse(body)])).toMatchObject([
      [GROUP, { type: 'request.held', namespace: 'prod', model: MODEL, held_count: 1 }],
    ]);
    await bed.startWorker({ env: { DYN_NAMESPACE: 'prod' } });
    for (const answer of await Promise.all(asked)) {
      expect(answer.status).toBe(200);
      expect(await answer.json()).toMatchObject({ model: MODEL, choices: [{ finish_reason: 'length' }] });
    }
  });
});
