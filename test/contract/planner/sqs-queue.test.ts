import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SqsPlannerQueue } from '../../../shared/planes/index.ts';
import { hasSqs, type SqsServer, startSqs } from '../../support/index.ts';
import { describePlannerQueue } from './queue.contract.ts';

describe.runIf(hasSqs())('against an SQS server', () => {
  let server: SqsServer;
  beforeAll(async () => {
    server = await startSqs();
  }, 60_000);
  afterAll(() => server?.stop());

  describePlannerQueue('sqs', async () => {
    const queueUrl = await server.createQueue('planner-events');
    const open = () => SqsPlannerQueue.open({ queueUrl, endpoint: server.url });
    return [await open(), await open()];
  });

  it('names the queue and the setting when the queue does not exist', async () => {
    const queue = await SqsPlannerQueue.open({
      queueUrl: `${server.url}/000000000000/nowhere.fifo`,
      endpoint: server.url,
    });
    const signal = new AbortController().signal;
    const failure = await queue.receive({ waitMs: 0, hiddenMs: 1000 }, signal).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'misconfigured' });
    expect(String(failure)).toMatch(/nowhere\.fifo.*STATOR_PLANNER_QUEUE_URL/);
  });

  it('fails in bounded time while no server answers', async () => {
    const queueUrl = 'http://127.0.0.1:9/0/q.fifo';
    const queue = await SqsPlannerQueue.open({ queueUrl, endpoint: 'http://127.0.0.1:9', operationTimeoutMs: 200 });
    const sending = queue.send([{ group: 'g', deduplicationId: '1', body: 'b' }], new AbortController().signal);
    await expect(sending).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/STATOR_SQS_ENDPOINT/),
    });
  });
});
