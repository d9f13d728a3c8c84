import { freePort } from './free-port.ts';
import { spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** An SQS endpoint for one suite. */
export interface SqsServer {
  readonly url: string;
  /** Creates a FIFO queue that deduplicates within each group, as a deployment does. Returns its URL. */
  createQueue(name: string): Promise<string>;
  /** Ends the server. Idempotent. */
  stop(): Promise<void>;
}

/** Whether the set-up found or fetched ElasticMQ. */
export function hasSqs(): boolean {
  return Boolean(process.env.STATOR_TEST_ELASTICMQ_LIB);
}

/** Starts ElasticMQ on 127.0.0.1 and waits until it answers. Sets local credentials if the process has none. */
export async function startSqs(): Promise<SqsServer> {
  const lib = process.env.STATOR_TEST_ELASTICMQ_LIB;
  if (!lib) throw new Error('STATOR_TEST_ELASTICMQ_LIB is not set: run through vitest, whose set-up fetches ElasticMQ');
  process.env.AWS_REGION ??= 'us-east-1';
  if (!process.env.AWS_PROFILE && !process.env.AWS_ACCESS_KEY_ID) {
    process.env.AWS_ACCESS_KEY_ID = 'local';
    process.env.AWS_SECRET_ACCESS_KEY = 'local';
  }
  const port = await freePort();
  const settings = {
    'rest-sqs.bind-port': port,
    'rest-sqs.bind-hostname': '127.0.0.1',
    'node-address.host': '127.0.0.1',
    'node-address.port': port,
    'rest-stats.enabled': false,
  };
  const defines = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
  const flags = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
  const server = spawnProgram('java', [...flags, ...defines, '-cp', `${lib}/*`, 'org.elasticmq.server.Main']);
  const url = `http://127.0.0.1:${port}`;
  await waitUntil(() => answers(url), { what: `ElasticMQ on ${url}`, timeoutMs: 60_000 });
  return { url, createQueue: (name) => createQueue(url, name), stop: () => server.kill() };
}

async function answers(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(1000) });
  await response.arrayBuffer(); // frees the connection
  return true; // any status shows that it listens and speaks HTTP
}

async function createQueue(endpoint: string, name: string): Promise<string> {
  const { CreateQueueCommand, SQSClient } = await import('@aws-sdk/client-sqs');
  const client = new SQSClient({ endpoint, region: 'us-east-1' });
  try {
    const { QueueUrl } = await client.send(
      new CreateQueueCommand({
        QueueName: `${name}.fifo`,
        Attributes: {
          FifoQueue: 'true',
          DeduplicationScope: 'messageGroup',
          FifoThroughputLimit: 'perMessageGroupId',
          VisibilityTimeout: '30',
        },
      }),
    );
    if (QueueUrl === undefined) throw new Error(`ElasticMQ made no queue ${name}`);
    return QueueUrl;
  } finally {
    client.destroy();
  }
}
