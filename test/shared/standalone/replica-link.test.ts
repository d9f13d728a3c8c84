import { afterEach, describe, expect, it } from 'vitest';
import { openReplicaLink, type ZmqReplicaLink } from '../../../shared/standalone/replicas.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../support/index.ts';

const links: ZmqReplicaLink[] = [];

afterEach(async () => {
  for (const link of links.splice(0)) await link.close();
});

async function open(heard: unknown[]): Promise<ZmqReplicaLink> {
  const options = { host: '127.0.0.1', port: 0, logger: silentLogger };
  const link = await openReplicaLink(options, (message) => heard.push(message));
  links.push(link);
  return link;
}

describe('a link between replicas', () => {
  it('hands on messages in order, a long one in its place', async () => {
    const heard: unknown[] = [];
    const [sender, receiver] = [await open([]), await open(heard)];
    receiver.connect(sender.endpoint!); // it listens
    await waitUntil(() => {
      sender.publish('probe');
      return heard.length > 0;
    });
    const long = Array.from({ length: 60_000 }, (_, at) => ({ at, hash: 2n ** 63n + BigInt(at) }));
    for (const message of ['before', long, 'behind']) sender.publish(message);
    await waitUntil(() => heard.at(-1) === 'behind');
    expect(heard.filter((message) => message !== 'probe')).toEqual(['before', long, 'behind']);
  });
});
