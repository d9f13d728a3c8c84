import type { EndpointRecord, EventChannelRecord, ModelRecord } from '../../discovery/index.ts';
import type { ModelReadiness } from '../../pipeline/index.ts';
import { addressesOf } from '../../planes/index.ts';
import { examineFiles } from './examine-files.ts';
import type { Finding } from './findings.ts';
import { groupBy } from './group-by.ts';
import { type Probes, TRIED_MAX } from './probes.ts';

/** Everything that discovery lists, of both products. */
export interface FleetRecords {
  readonly endpoints: readonly EndpointRecord[];
  readonly models: readonly ModelRecord[];
  readonly channels: readonly EventChannelRecord[];
}

/** A fleet as the doctor has read it. */
export interface ExaminedFleet extends FleetRecords {
  /** Place of discovery, in words. */
  readonly place: string;
  /** Entries that discovery could not read, and why. */
  readonly problems: readonly string[];
  /** Whether the frontend would serve each model, by its name; a model that it would not even list is absent. */
  readonly readiness: ReadonlyMap<string, ModelReadiness>;
}

/** Settings of the frontend that decide what it needs of a fleet. */
export interface FleetNeeds {
  readonly routerMode: string;
  readonly natsServers: readonly string[];
  /** Model folder of the frontend's own; undefined = none. */
  readonly modelFolder: string | undefined;
  /** Whether the frontend must not download from the Hugging Face Hub. */
  readonly isHubOffline: boolean;
  /** Reason why workers of Dynamo cannot open connections to the frontend; undefined if they can. */
  readonly cannotBeDialled: string | undefined;
}

/** Examines the records of a fleet, and tries the addresses and files that they name. */
export async function examineFleet(
  fleet: ExaminedFleet,
  needs: FleetNeeds,
  probes: Probes,
): Promise<readonly Finding[]> {
  const workers = workersOf(fleet);
  const findings = await Promise.all([
    examineModels(fleet),
    examineAddresses(workers, needs, probes),
    examineFiles(fleet.models, needs, probes),
    examineEvents(fleet.channels, workers, needs, probes),
  ]);
  const refused = new Set(fleet.endpoints.flatMap((endpoint) => endpoint.refused ?? []));
  const unread = [...fleet.problems, ...refused].map(unreadable);
  return [countRecords(fleet), ...unread, ...examineHome(fleet, needs), ...findings.flat()];
}

/** Endpoints at which models are served: those with a card. */
function workersOf({ endpoints, models }: FleetRecords): readonly EndpointRecord[] {
  const served = new Set(models.map(pathOf));
  return endpoints.filter((endpoint) => served.has(pathOf(endpoint)));
}

function pathOf({ namespace, component, endpoint, instance_id }: EndpointRecord | ModelRecord): string {
  return [namespace, component, endpoint, instance_id].join('/');
}

function countRecords({ place, endpoints, models, channels }: ExaminedFleet): Finding {
  const about = `discovery ${place}`;
  if (endpoints.length > 0) {
    const counts = [countOf(endpoints, 'endpoint'), countOf(models, 'model card'), countOf(channels, 'event channel')];
    return { verdict: 'ok', about, says: counts.join(', ') };
  }
  const remedy = 'start the workers first, or give the store in which they register';
  return { verdict: 'fails', about, says: 'no worker is registered here', remedy };
}

function countOf(items: readonly unknown[], name: string): string {
  return `${items.length} ${name}${items.length === 1 ? '' : 's'}`;
}

function unreadable(problem: string): Finding {
  return { verdict: 'fails', about: 'record', says: problem };
}

/** Examines whether workers of Dynamo can deliver their answers, for which they dial the frontend. */
function examineHome({ models }: ExaminedFleet, { cannotBeDialled }: FleetNeeds): readonly Finding[] {
  if (!models.some(({ wire }) => wire === 'dynamo')) return [];
  const about = 'connections of workers';
  if (cannotBeDialled !== undefined) return [{ verdict: 'fails', about, says: cannotBeDialled }];
  return [{ verdict: 'ok', about, says: "Dynamo's workers open one to the frontend for each answer" }];
}

function examineModels({ models, readiness }: ExaminedFleet): readonly Finding[] {
  return [...groupBy(models, ({ card }) => card.display_name)].map(([name, records]): Finding => {
    const about = `model ${name}`;
    const says = `${workersInWords(records)}, ${typesInWords(records)}`;
    const found = readiness.get(name);
    if (found === undefined) {
      const remedy = '--namespace and --namespace-prefix choose whose models are served';
      return { verdict: 'fails', about, says: `${says}; in another namespace`, remedy };
    }
    if (found.isReady) return { verdict: 'ok', about, says };
    const reasons = Object.entries(found.namespaces).map(([namespace, { reason }]) => `${namespace}: ${reason}`);
    return { verdict: 'fails', about, says: `${says}; not served (${reasons.join('; ') || found.reason})` };
  });
}

function workersInWords(records: readonly ModelRecord[]): string {
  const theirs = records.filter(({ wire }) => wire === 'dynamo').length;
  const ours = records.length - theirs;
  const parts = [...(theirs > 0 ? [`${theirs} of Dynamo`] : []), ...(ours > 0 ? [`${ours} of Stator`] : [])];
  return `${countOf(records, 'worker')} (${parts.join(', ')})`;
}

function typesInWords(records: readonly ModelRecord[]): string {
  const of = (values: readonly string[]): string => [...new Set(values)].sort().join(', ');
  const roles = of(records.map(({ card }) => card.worker_type));
  const types = of(records.flatMap(({ card }) => card.model_type));
  return `${roles}, ${types} from ${of(records.map(({ card }) => card.model_input))}`;
}

/** Tries the address of each worker. */
async function examineAddresses(
  workers: readonly EndpointRecord[],
  needs: FleetNeeds,
  probes: Probes,
): Promise<readonly Finding[]> {
  const addresses = workers
    .flatMap(({ transport }) => Object.entries(transport))
    .map(([kind, at]) => ({ kind, at: String(at) }));
  const tcp = [
    ...new Set(
      addresses
        .filter(({ kind }) => kind.endsWith('tcp') && !kind.includes('nats'))
        .map(({ at }) => at.split('/', 1)[0]!),
    ),
  ];
  const findings = await Promise.all(
    tcp.slice(0, TRIED_MAX).map(async (address): Promise<readonly Finding[]> => {
      const fault = await probes.address(address);
      if (fault === undefined) return [];
      const remedy = 'if the worker lives, let this machine reach that port; if it was killed, its lease runs out soon';
      return [{ verdict: 'fails', about: `worker at ${address}`, says: `cannot be reached: ${fault}`, remedy }];
    }),
  );
  const reached: readonly Finding[] =
    tcp.length > 0 && findings.every((each) => each.length === 0)
      ? [
          {
            verdict: 'ok',
            about: 'addresses of workers',
            says: `${Math.min(tcp.length, TRIED_MAX)} tried, all reached`,
          },
        ]
      : [];
  const takesNats = addresses.some(({ kind }) => kind.includes('nats'));
  return [...findings.flat(), ...reached, ...(takesNats ? await examineNats('requests', needs, probes) : [])];
}

async function examineNats(what: string, { natsServers }: FleetNeeds, probes: Probes): Promise<readonly Finding[]> {
  const about = `NATS at ${addressesOf(natsServers)}`;
  const faults = await Promise.all(natsServers.map((url) => probes.address(portedHost(url))));
  if (faults.includes(undefined)) return [{ verdict: 'ok', about, says: `reached; it carries ${what}` }];
  const remedy = 'give its address as NATS_SERVER';
  return [{ verdict: 'fails', about, says: `${what} of the workers go by NATS: ${faults[0]}`, remedy }];
}

/** Ports of NATS addresses without one. */
const NATS_PORTS: Readonly<Record<string, number>> = { 'ws:': 80, 'wss:': 443 };
const NATS_PORT = 4222;

function portedHost(url: string): string {
  const { protocol, hostname, port } = new URL(url);
  return `${hostname}:${port || (NATS_PORTS[protocol] ?? NATS_PORT)}`;
}

/** Examines what a router in mode `kv` needs: the events of every worker. */
async function examineEvents(
  channels: readonly EventChannelRecord[],
  workers: readonly EndpointRecord[],
  needs: FleetNeeds,
  probes: Probes,
): Promise<readonly Finding[]> {
  if (needs.routerMode !== 'kv' || workers.length === 0) return [];
  const events = channels.filter(({ topic }) => topic === 'kv-events');
  if (events.length === 0) {
    const says = 'no worker publishes them: mode kv predicts what the caches hold';
    return [
      { verdict: 'differs', about: 'KV events', says, remedy: '--enable-prefix-caching and KV events at the workers' },
    ];
  }
  const endpoints = events.flatMap(({ transport }) => (transport.kind === 'Zmq' ? [transport.config.endpoint] : []));
  const tried = [...new Set(endpoints)].slice(0, TRIED_MAX);
  const faults = await Promise.all(
    tried.map(async (endpoint): Promise<readonly Finding[]> => {
      const fault = await probes.address(endpoint.replace(/^tcp:\/\//, ''));
      if (fault === undefined) return [];
      const remedy = 'DYN_EVENT_PLANE_HOST at the worker is the address that it publishes';
      return [{ verdict: 'fails', about: `KV events at ${endpoint}`, says: `cannot be reached: ${fault}`, remedy }];
    }),
  );
  const byNats = events.some(({ transport }) => transport.kind === 'Nats');
  const nats = byNats ? await examineNats('KV events', needs, probes) : [];
  const publishers: Finding = { verdict: 'ok', about: 'KV events', says: countOf(events, 'publisher') };
  return [publishers, ...faults.flat(), ...nats];
}
