import { describe, expect, it } from 'vitest';
import { type ExaminedFleet, examineFleet, type FleetNeeds } from '../../../../shared/commands/doctor/examine-fleet.ts';
import type { Probes } from '../../../../shared/commands/doctor/probes.ts';
import type { EndpointRecord, ModelRecord } from '../../../../shared/discovery/index.ts';
import { channelOf, endpointAt, modelAt } from '../../../contract/discovery/records.ts';

const NEEDS: FleetNeeds = {
  routerMode: 'round-robin',
  natsServers: ['nats://broker:4222'],
  modelFolder: undefined,
  isHubOffline: false,
  cannotBeDialled: undefined,
};
const SCOPE = { kind: 'endpoint', namespace: 'ns', component: 'backend', endpoint: 'generate' } as const;
const READY = { isReady: true, reason: undefined, namespaces: {} };

/** Probes of a machine that reaches everything but the named places. */
function reaching(...broken: readonly string[]): Probes {
  const look = async (place: string): Promise<string | undefined> => (broken.includes(place) ? 'refused' : undefined);
  return { address: look, url: look, file: look };
}

function ofDynamo(path: string, transport: Readonly<Record<string, string>>): readonly [EndpointRecord, ModelRecord] {
  const endpoint = { ...endpointAt(path), wire: 'dynamo', transport } as EndpointRecord;
  return [endpoint, { ...modelAt(path), wire: 'dynamo' }];
}

function fleetOf(pairs: readonly (readonly [EndpointRecord, ModelRecord])[], more: Partial<ExaminedFleet> = {}) {
  const models = pairs.map(([, model]) => model);
  return {
    place: 'etcd at http://e',
    problems: [],
    channels: [],
    endpoints: pairs.map(([endpoint]) => endpoint),
    models,
    readiness: new Map(models.map(({ card }) => [card.display_name, READY])),
    ...more,
  };
}

async function lines(fleet: ExaminedFleet, needs: Partial<FleetNeeds> = {}, probes = reaching()) {
  const findings = await examineFleet(fleet, { ...NEEDS, ...needs }, probes);
  return findings.map(({ verdict, about, says }) => `${verdict} ${about}: ${says}`);
}

const TCP = ofDynamo('ns/backend/generate/a', { dynamo_tcp: '10.0.0.1:4000/a/ns/backend/generate' });
const NATS = ofDynamo('ns/backend/generate/b', { dynamo_nats_tcp: 'ns_backend.generate-b' });

describe('a fleet', () => {
  it('that works has a line for each subject', async () => {
    expect(await lines(fleetOf([TCP, NATS]))).toEqual([
      'ok discovery etcd at http://e: 2 endpoints, 2 model cards, 0 event channels',
      "ok connections of workers: Dynamo's workers open one to the frontend for each answer",
      'ok model Tiny/Model-1.0: 2 workers (2 of Dynamo), aggregated, Chat, Completions from Tokens',
      'ok addresses of workers: 1 tried, all reached',
      'ok NATS at nats://broker:4222: reached; it carries requests',
      'ok files of Tiny/Model-1.0: 1 found',
    ]);
  });

  it('without workers does not work', async () => {
    expect(await lines(fleetOf([]))).toEqual(['fails discovery etcd at http://e: no worker is registered here']);
  });

  it('names each address, broker and file that is out of reach', async () => {
    const probes = reaching('10.0.0.1:4000', 'broker:4222', '/models/tiny/tokenizer.json');
    const fleet = fleetOf([TCP, NATS]);
    const fails = (await lines(fleet, { isHubOffline: true }, probes)).filter((line) => line.startsWith('fails'));
    expect(fails).toEqual([
      'fails worker at 10.0.0.1:4000: cannot be reached: refused',
      'fails NATS at nats://broker:4222: requests of the workers go by NATS: refused',
      'fails files of Tiny/Model-1.0: 1 of 1 missing, such as /models/tiny/tokenizer.json: refused',
    ]);
    const home = await lines(fleetOf([TCP]), { cannotBeDialled: 'no listener' });
    expect(home).toContain('fails connections of workers: no listener');
    const own = await lines(fleetOf([TCP]), { modelFolder: '/own' }, reaching('/models/tiny/tokenizer.json'));
    expect(own.join()).not.toContain('files');
  });

  it.each([
    ['nats://broker', 'broker:4222'],
    ['tls://broker', 'broker:4222'],
    ['ws://broker', 'broker:80'],
    ['wss://broker', 'broker:443'],
    ['nats://[::1]:4223', '[::1]:4223'],
  ])('is reached over NATS at %s by the port %s', async (url, address) => {
    const told = await lines(fleetOf([NATS]), { natsServers: [url] }, reaching(address));
    expect(told).toContain(`fails NATS at ${url}: requests of the workers go by NATS: refused`);
  });

  it('shows no credentials of NATS', async () => {
    const natsServers = ['nats://me:hidden@one:4222', 'nats://token@two:4222'];
    expect(await lines(fleetOf([NATS]), { natsServers })).toContain(
      'ok NATS at nats://one:4222, nats://two:4222: reached; it carries requests',
    );
  });

  it('may lack files that the frontend downloads by the name of the model', async () => {
    const [endpoint, model] = TCP;
    const path = '/models/tiny/tokenizer.json';
    const told = async (card: Partial<ModelRecord['card']>, isHubOffline = false) => {
      const fleet = fleetOf([[endpoint, { ...model, card: { ...model.card, ...card } }]]);
      const all = await lines(fleet, { isHubOffline }, reaching(path, '/chat.jinja'));
      return all.find((line) => line.includes('files of'));
    };
    const missing = `1 of 1 missing, such as ${path}: refused`;
    expect(await told({})).toBe(
      `differs files of Tiny/Model-1.0: ${missing}; the frontend downloads Tiny/Model-1.0 from the hub`,
    );
    expect(await told({ source_path: 'Org/Base' })).toContain('the frontend downloads Org/Base from the hub');
    expect(await told({}, true)).toBe(`fails files of Tiny/Model-1.0: ${missing}`);
    expect(await told({ display_name: 'tiny' })).toBe(`fails files of tiny: ${missing}`);
    const template = { path: '/chat.jinja', checksum: 'blake3:0', size: 1 };
    expect(await told({ files: { ...model.card.files, custom_chat_template: template } })).toMatch(/^fails/);
  });

  it('takes files on the Hugging Face Hub for found, because a frontend downloads them', async () => {
    const [endpoint, model] = TCP;
    const files = { 'tokenizer.json': { path: 'hf://org/name/tokenizer.json', checksum: 'blake3:0', size: 1 } };
    const card = { ...model.card, files };
    const fleet = fleetOf([[endpoint, { ...model, card }]]);
    expect(await lines(fleet, {}, reaching('hf://org/name/tokenizer.json'))).toContain(
      'ok files of Tiny/Model-1.0: 1 found',
    );
  });

  it('names records that cannot be read, and models that would not be served', async () => {
    const readiness = new Map([['Tiny/Model-1.0', { isReady: false, reason: 'x', namespaces: {} }]]);
    const some = await lines(fleetOf([TCP], { readiness, problems: ['v1/mdc/x is of Dynamo 1.2'] }));
    expect(some).toContain('fails record: v1/mdc/x is of Dynamo 1.2');
    expect(some).toContainEqual(expect.stringMatching(/^fails model Tiny.*not served \(x\)$/));
    const old = [{ ...TCP[0], refused: 'the worker is of Dynamo 1.3' }, TCP[1]] as const;
    expect(await lines(fleetOf([old]))).toContain('fails record: the worker is of Dynamo 1.3');
    const none = await lines(fleetOf([TCP], { readiness: new Map() }));
    expect(none).toContainEqual(expect.stringMatching(/^fails model Tiny.*in another namespace$/));
  });

  it('needs the events of its workers only in mode kv', async () => {
    const kv = { routerMode: 'kv' };
    expect((await lines(fleetOf([TCP]))).join()).not.toContain('KV events');
    expect(await lines(fleetOf([TCP]), kv)).toContainEqual(expect.stringContaining('differs KV events: no worker'));
    const fleet = fleetOf([TCP], { channels: [channelOf(SCOPE, 'kv-events', 'c')] });
    expect(await lines(fleet, kv)).toContain('ok KV events: 1 publisher');
    expect(await lines(fleet, kv, reaching('127.0.0.1:5557'))).toContain(
      'fails KV events at tcp://127.0.0.1:5557: cannot be reached: refused',
    );
  });

  it('of thousands is judged by a bounded number of addresses', async () => {
    const many = Array.from({ length: 2000 }, (_, at) =>
      ofDynamo(`ns/backend/generate/${at.toString(16)}`, { dynamo_tcp: `10.0.0.1:${at + 1}/x` }),
    );
    expect(await lines(fleetOf(many))).toContain('ok addresses of workers: 256 tried, all reached');
  });
});
