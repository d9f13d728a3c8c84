import { describe, expect, it } from 'vitest';
import { sourcesOfRanks } from '../../../../shared/engines/kv-stream/event-sources.ts';
import { type KnownEvents, planEvents } from '../../../../shared/engines/server/followed-events.ts';
import { type LaunchFacts, launchFactsOf } from '../../../../shared/engines/server/launch-facts.ts';

const CONFIG = { enable_kv_cache_events: true, endpoint: 'tcp://*:7000', replay_endpoint: 'tcp://*:8000', topic: 't' };
const JSON_CONFIG = JSON.stringify(CONFIG);
const EVENTS = { endpoint: 'tcp://*:7000', replayEndpoint: 'tcp://*:8000', topic: 't' };

describe('facts in the command line of an engine', () => {
  it.each<readonly [string, readonly string[], Partial<LaunchFacts>]>([
    ['nothing', [], { ranks: 1, local: 1, firstRank: 0, events: undefined }],
    ['a configuration as the next word', ['--kv-events-config', JSON_CONFIG], { events: EVENTS }],
    ['one in the same word', [`--kv-events-config=${JSON_CONFIG}`], { events: EVENTS }],
    ['one with underscores', [`--kv_events_config=${JSON_CONFIG}`], { events: EVENTS }],
    ['two: the last counts', ['--kv-events-config', '{}', `--kv-events-config=${JSON_CONFIG}`], { events: EVENTS }],
    ['one that asks for none', ['--kv-events-config={"endpoint":"tcp://*:1"}'], { events: undefined }],
    ['no publisher', ['--kv-events-config={"enable_kv_cache_events":true,"publisher":"null"}'], { events: undefined }],
    [
      'the defaults',
      ['--kv-events-config={"enable_kv_cache_events":true}'],
      { events: { endpoint: 'tcp://*:5557', replayEndpoint: undefined, topic: '' } },
    ],
    [
      'fields by themselves, which win over the whole',
      [
        '--kv-events-config.enable_kv_cache_events',
        'true',
        '--kv-events-config.endpoint=tcp://*:9',
        `--kv-events-config=${JSON_CONFIG}`,
      ],
      { events: { endpoint: 'tcp://*:9', replayEndpoint: undefined, topic: '' } },
    ],
    ['ranks', ['--data-parallel-size', '4'], { ranks: 4, local: 4 }],
    ['ranks by the short name', ['-dp', '2'], { ranks: 2, local: 2 }],
    ['ranks, the last of both names', ['--data_parallel_size=4', '-dp=3'], { ranks: 3 }],
    ['those of this machine', ['-dp', '8', '-dpl', '4'], { ranks: 8, local: 4, firstRank: 0 }],
    ['the later ones', ['-dp=8', '-dpl=4', '-dpr=4'], { ranks: 4, local: 4, firstRank: 4 }],
    ['a single one of many', ['-dp', '8', '--data-parallel-rank', '5'], { ranks: 1, local: 1, firstRank: 5 }],
    ['context parallelism', ['-dcp', '4'], { contextRanks: 4 }],
    ['that of prompts, too', ['--decode-context-parallel-size=2', '-pcp=2'], { contextRanks: 4 }],
  ])('of vLLM: %s', (_, args, launchFacts) => {
    expect(launchFactsOf(args, 'vllm')).toMatchObject(launchFacts);
  });

  it.each<readonly [string, readonly string[], Partial<LaunchFacts>]>([
    [
      'a publisher',
      ['--kv-events-config', '{"publisher":"zmq","endpoint":"tcp://*:7000"}'],
      { events: expect.objectContaining({ endpoint: 'tcp://*:7000' }) },
    ],
    ['none, as none is named', ['--kv-events-config={"endpoint":"tcp://*:7000"}'], { events: undefined }],
    ['ranks', ['--dp-size=2'], { ranks: 2, local: 2 }],
    ['ranks by the other name', ['--data-parallel-size', '2'], { ranks: 2 }],
    ['ranks on two machines', ['--dp-size=8', '--nnodes', '2'], { ranks: 8, local: 4, firstRank: 0 }],
    ['those of the second', ['--dp-size=8', '--nnodes=2', '--node-rank=1'], { ranks: 8, local: 4, firstRank: 4 }],
    ['one rank on two machines', ['--nnodes', '2', '--tp-size=16'], { ranks: 1, local: 1, firstRank: 0 }],
  ])('of SGLang: %s', (_, args, launchFacts) => {
    expect(launchFactsOf(args, 'sglang')).toMatchObject(launchFacts);
  });

  it("binds if the engine connects, by the rule of each engine and SGLang's option", () => {
    const binds = (kind: 'vllm' | 'sglang', config: object): boolean | undefined => {
      const all = { enable_kv_cache_events: true, publisher: 'zmq', ...config };
      const { events } = launchFactsOf([`--kv-events-config=${JSON.stringify(all)}`], kind);
      return events && sourcesOfRanks(events, { first: 0, count: 1 }, '127.0.0.1')[0]?.binds;
    };
    expect(binds('vllm', { endpoint: 'tcp://127.0.0.1:7000' })).toBe(true);
    expect(binds('vllm', { endpoint: 'tcp://0.0.0.0:7000' })).toBe(true);
    expect(binds('vllm', { endpoint: 'tcp://*:7000' })).toBe(false);
    expect(binds('sglang', { endpoint: 'tcp://127.0.0.1:7000' })).toBe(true);
    expect(binds('sglang', { endpoint: 'tcp://0.0.0.0:7000' })).toBe(false);
    expect(binds('sglang', { endpoint: 'tcp://127.0.0.1:7000', bind: true })).toBe(false);
    expect(binds('sglang', { endpoint: 'tcp://*:7000', bind: false })).toBe(true);
  });
});

describe('which KV events are followed', () => {
  const nothing: KnownEvents = { launchFacts: undefined, described: undefined, hasCache: true, ranksSeen: 1 };
  const launchFacts = (more: Partial<LaunchFacts> = {}): LaunchFacts => ({
    ranks: 1,
    local: 1,
    firstRank: 0,
    events: EVENTS,
    ...more,
  });
  const endpointsOf = (known: Partial<KnownEvents>): readonly string[] => {
    const { followed } = planEvents({ ...nothing, ...known });
    if (followed === undefined) return [];
    return sourcesOfRanks(followed.source, followed.ranks, 'h').map(
      ({ dpRank, endpoint, replayEndpoint }) => `${dpRank} ${endpoint} ${replayEndpoint}`,
    );
  };

  it('follows the publisher of the command line, not that of the server', () => {
    const said = { endpoint: 'tcp://*:1', replayEndpoint: undefined, topic: '' };
    const first = '0 tcp://h:7000 tcp://h:8000';
    expect(endpointsOf({ launchFacts: launchFacts() })).toEqual([first]);
    expect(endpointsOf({ launchFacts: launchFacts(), described: said, listed: new Map([[0, said]]) })).toEqual([first]);
    expect(endpointsOf({ launchFacts: launchFacts({ ranks: 2, local: 2 }) })).toEqual([
      first,
      '1 tcp://h:7001 tcp://h:8001',
    ]);
    expect(endpointsOf({ launchFacts: launchFacts(), ranksSeen: 2 })).toHaveLength(2); // ranks set in the engine's own file
    expect(endpointsOf({ launchFacts: launchFacts({ ranks: 8, local: 1 }) })).toEqual([first]);
    expect(endpointsOf({ launchFacts: launchFacts({ ranks: 1, firstRank: 5 }) })).toEqual([
      '0 tcp://h:7005 tcp://h:8005',
    ]);
  });

  it('follows ranks of other machines only where their engines connect to this one', () => {
    const events = { ...EVENTS, endpoint: 'tcp://10.0.0.1:7000', replayEndpoint: undefined };
    const parts = { ranks: 4, local: 2 };
    expect(endpointsOf({ launchFacts: launchFacts({ ...parts, events }) })).toHaveLength(4);
    expect(endpointsOf({ launchFacts: launchFacts(parts) })).toHaveLength(2);
    expect(planEvents({ ...nothing, launchFacts: launchFacts(parts) }).ranks).toBe(4);
  });

  it('follows the publisher that a server lists when its command line is unknown', () => {
    const listed = new Map([
      [0, { endpoint: 'tcp://*:7000', replayEndpoint: 'tcp://*:8000' }],
      [1, { endpoint: 'tcp://*:7100', replayEndpoint: undefined }],
    ]);
    expect(endpointsOf({ described: EVENTS, listed })).toEqual([
      '0 tcp://h:7000 tcp://h:8000',
      '1 tcp://h:7100 undefined',
    ]);
    expect(planEvents({ ...nothing })).toEqual({ ranks: 1, followed: undefined });
  });

  it('reads from the server which ports the system has chosen', () => {
    const events = { endpoint: 'tcp://*:0', replayEndpoint: undefined, topic: '' };
    const listed = new Map([[0, { endpoint: 'tcp://10.0.0.5:41000', replayEndpoint: undefined }]]);
    const plan = planEvents({ ...nothing, launchFacts: launchFacts({ events }), described: events, listed });
    const sources = plan.followed && sourcesOfRanks(plan.followed.source, plan.followed.ranks, 'h');
    expect(sources).toMatchObject([{ endpoint: 'tcp://10.0.0.5:41000', binds: false }]);
    expect(planEvents({ ...nothing, launchFacts: launchFacts({ events }) }).fault).toContain(
      'tcp://*:0 lets the system choose the port',
    );
  });

  it('reports why requested events are not followed', () => {
    expect(planEvents({ ...nothing, launchFacts: launchFacts(), hasCache: false }).fault).toBe(
      'its prefix cache is off',
    );
    expect(planEvents({ ...nothing, launchFacts: launchFacts({ ranks: 4, local: 0 }) }).fault).toMatch(
      'on this machine',
    );
    const inproc = { ...EVENTS, endpoint: 'inproc://x' };
    expect(planEvents({ ...nothing, launchFacts: launchFacts({ events: inproc }) }).fault).toMatch(
      'inproc://x does not leave',
    );
    expect(planEvents({ ...nothing, hasCache: false })).toEqual({ ranks: 1, followed: undefined });
  });
});
