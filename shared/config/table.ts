import type { edges, fleet, fleetRouters, Process, Row, routers } from './row.ts';
import { accessRows, tlsRows } from './table/access.ts';
import { cloudRows } from './table/cloud.ts';
import { disaggregationRows } from './table/disaggregation.ts';
import { discoveryRows, etcdRows, kubernetesRows } from './table/discovery.ts';
import { endpointPickerRows } from './table/endpoint-picker.ts';
import { eventPlaneRows, kvEventsRows } from './table/event-plane.ts';
import { faultToleranceRows } from './table/fault-tolerance.ts';
import { grpcRows } from './table/grpc.ts';
import { hostRows } from './table/host.ts';
import { httpRows } from './table/http.ts';
import { hubRows } from './table/hub.ts';
import { loggingRows } from './table/logging.ts';
import { metricsRows } from './table/metrics.ts';
import { mockerRows } from './table/mocker.ts';
import { loraRows, modelRows } from './table/model.ts';
import { natsRows } from './table/nats.ts';
import { plannerProcessRows, plannerRows } from './table/planner.ts';
import { requestPlaneRows } from './table/request-plane.ts';
import { routerIndexRows } from './table/router-index.ts';
import { queueRows, routerModesRows } from './table/router-modes.ts';
import { routerScoringRows } from './table/router-scoring.ts';
import { simulateRows } from './table/simulate.ts';
import { workerRows } from './table/worker.ts';
import { workerKindRows } from './table/worker-kinds.ts';

/**
 * The sections of the table under their titles, in the order of help and documentation. Each holds rows of a file of
 * table/; some files have two sections.
 */
const SECTIONS = {
  'HTTP server and routes': httpRows,
  'API keys': accessRows,
  TLS: tlsRows,
  'KServe gRPC': grpcRows,
  'Endpoint picker': endpointPickerRows,
  'Model and tokenizer': modelRows,
  'Hugging Face Hub': hubRows,
  'Router modes': routerModesRows,
  'KV router scoring': routerScoringRows,
  'Router events and index': routerIndexRows,
  'Queue and admission': queueRows,
  Disaggregation: disaggregationRows,
  'Fault tolerance and migration': faultToleranceRows,
  Discovery: discoveryRows,
  etcd: etcdRows,
  Kubernetes: kubernetesRows,
  'Request plane': requestPlaneRows,
  'Event plane': eventPlaneRows,
  NATS: natsRows,
  'Metrics and health': metricsRows,
  'Logging and tracing': loggingRows,
  'Worker and vLLM engine': workerRows,
  'Kinds of workers': workerKindRows,
  Mocker: mockerRows,
  'KV events publishing': kvEventsRows,
  LoRA: loraRows,
  Simulate: simulateRows,
  Planner: plannerRows,
  'Planner of a fleet': plannerProcessRows,
  'Host of GPU workers': hostRows,
  Cloud: cloudRows,
};

// A function that takes any one of the sections must take what they have in common: all of their rows.
type AllOf<Section> = (Section extends unknown ? (rows: Section) => void : never) extends (rows: infer R) => void
  ? R
  : never;
type Table = AllOf<(typeof SECTIONS)[keyof typeof SECTIONS]>;

/** Name of a setting: its first flag or variable in camel case, with its unit. */
export type SettingName = keyof Table;

type ReaderOf<R> = R extends Row<infer _V, infer P> ? P : never;
type ValueOf<R> = R extends Row<infer V, infer _P> ? V : never;

/** Types of the resolved values of all settings. */
export type ValuesBySetting = { readonly [K in SettingName]: ValueOf<Table[K]> };

/**
 * Resolved values of every setting that `P` reads. For several processes: the settings that all of them read, and as
 * optional those that only some read.
 */
export type Settings<P extends Process> = {
  readonly [K in SettingName as [P] extends [ReaderOf<Table[K]>] ? K : never]: ValueOf<Table[K]>;
} & {
  readonly [K in SettingName as [P] extends [ReaderOf<Table[K]>] ? never : P extends ReaderOf<Table[K]> ? K : never]?:
    | ValueOf<Table[K]>
    | undefined;
};

/** Settings of a process that serves clients, whatever hosts it. */
export type EdgeSettings = Settings<(typeof edges)['usedBy'][number]>;

/** Settings of a process that calls workers. */
export type CallerSettings = Settings<(typeof fleetRouters)['usedBy'][number]>;

/** Settings of a process with a router. */
export type RouterSettings = Settings<(typeof routers)['usedBy'][number]>;

/** Settings of any process of a fleet. */
export type FleetSettings = Settings<(typeof fleet)['usedBy'][number]>;

/** A setting with its name. */
export type NamedRow = readonly [setting: SettingName, row: Row];

/** The table in its sections. */
export const GROUPS: readonly { readonly title: string; readonly rows: readonly NamedRow[] }[] = Object.entries(
  SECTIONS,
).map(([title, rows]) => ({ title, rows: Object.entries(rows) as [SettingName, Row][] })); // entries of the table

/** All rows by their setting names, in table order. */
export const TABLE: ReadonlyMap<SettingName, Row> = new Map(GROUPS.flatMap(({ rows }) => rows));

/** Returns the rows that `process` reads, in table order. */
export function rowsOf(process: Process, rows: Iterable<NamedRow> = TABLE): readonly NamedRow[] {
  return [...rows].filter(([, row]) => row.usedBy.includes(process));
}

/** Returns a user's name of a setting: its flag, or its variable if it has no flag. */
export function nameOf(setting: SettingName): string {
  const row = TABLE.get(setting);
  return row?.flags[0] ?? row?.env[0] ?? setting;
}
