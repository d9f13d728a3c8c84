import { describe, expect, it } from 'vitest';
import { type ExaminedFleet, examineFleet, type FleetNeeds } from '../../../../shared/commands/doctor/examine-fleet.ts';
import type { Probes } from '../../../../shared/commands/doctor/probes.ts';
import type { EndpointRecord, ModelRecord } from '../../../../shared/discovery/index.ts';
import { channelOf, endpointAt, modelAt } from '../../../contract/discovery/records.ts';

const NEEDS: FleetNeeds = {
  routerMode: 'round-robin',
  natsServers: ['nats://broker:4222'],
  modelFolder: undefined,
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
    const fails = (await lines(fleetOf([TCP, NATS]), {}, probes)).filter((line) => line.startsWith('fails'));
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
