import { describe, expect, it } from 'vitest';
import { type ResidentAddress, watchResidentUrls } from '../../../shared/router-service/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { settle } from './resident-rig.ts';

/** The resident routers at `urls` while names stand for what `names` says. */
async function follow(urls: readonly string[], names: Map<string, readonly string[]>) {
  const clock = new VirtualClock();
  const told: (readonly ResidentAddress[])[] = [];
  const problems: string[] = [];
  const watch = await watchResidentUrls({
    urls,
    namespace: 'ns',
    plane: { at: (place, endpoint) => ({ tcp: `${place}/${endpoint}` }) },
    clock,
    resolve: async (host) => names.get(host) ?? Promise.reject(new Error('no such name')),
    onChange: (residents) => void told.push(residents),
    onProblem: (url) => void problems.push(url),
  });
  const places = (): readonly string[] => told.at(-1)?.map(({ instanceId }) => instanceId) ?? [];
  const later = async (): Promise<void> => {
    await clock.advance(5000);
    await settle();
  };
  return { watch, told, problems, places, later };
}

describe('resident routers that are named by URL', () => {
  it('are reached under a name that every resident has', async () => {
    const { told } = await follow(['tcp://127.0.0.1:9100'], new Map([['127.0.0.1', ['127.0.0.1']]]));
    expect(told).toEqual([
      [
        {
          instanceId: '127.0.0.1:9100',
          choose: { tcp: '127.0.0.1:9100/resident/ns/router/choose' },
          release: { tcp: '127.0.0.1:9100/resident/ns/router/release' },
          explain: { tcp: '127.0.0.1:9100/resident/ns/router/explain' },
        },
      ],
    ]);
  });

  it('are reached by gRPC at the addresses of such a URL, also beside other transports', async () => {
    const { told } = await follow(['grpc://a:50051', 'tcp://a:9100'], new Map([['a', ['10.0.0.1', 'fd00::1']]]));
    expect(told.at(-1)?.map((address) => ('grpc' in address ? address.grpc : address.choose))).toEqual([
      '10.0.0.1:50051',
      '[fd00::1]:50051',
      { tcp: '10.0.0.1:9100/resident/ns/router/choose' },
      { tcp: '[fd00::1]:9100/resident/ns/router/choose' },
    ]);
  });

  it('are all those that a name stands for, as they come and go', async () => {
    const names = new Map([['router.internal', ['10.0.0.2', '10.0.0.1']]]);
    const { places, told, later, watch } = await follow(['tcp://router.internal:9100'], names);
    expect(places()).toEqual(['10.0.0.1:9100', '10.0.0.2:9100']);
    await later();
    expect(told).toHaveLength(1); // nothing has changed
    names.set('router.internal', ['10.0.0.2', 'fd00::1']);
    await later();
    expect(places()).toEqual(['10.0.0.2:9100', '[fd00::1]:9100']);
    watch.close();
    names.set('router.internal', []);
    await later();
    expect(told).toHaveLength(2);
  });

  it('stay what they were while their name cannot be looked up', async () => {
    const names = new Map([['a', ['10.0.0.1']]]);
    const { places, later, problems } = await follow(['tcp://a:1', 'tcp://b:2'], names);
    expect([places(), problems]).toEqual([['10.0.0.1:1'], ['tcp://b:2']]);
    names.delete('a');
    names.set('b', ['10.0.0.9']);
    await later();
    expect(places()).toEqual(['10.0.0.1:1', '10.0.0.9:2']);
  });
});
