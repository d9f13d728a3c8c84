import type { Process } from './processes.ts';
import type { Row, RowGroup } from './row.ts';
import { rowsWithoutEffect } from './rows-without-effect.ts';
import { accessRows } from './table/access.ts';
import { cloudRows } from './table/cloud.ts';
import { disaggregationRows } from './table/disaggregation.ts';
import { discoveryRows } from './table/discovery.ts';
import { eventPlaneRows } from './table/event-plane.ts';
import { faultToleranceRows } from './table/fault-tolerance.ts';
import { grpcRows } from './table/grpc.ts';
import { healthRows } from './table/health.ts';
import { httpRows } from './table/http.ts';
import { kvEventsRows } from './table/kv-events.ts';
import { loggingRows } from './table/logging.ts';
import { loraRows } from './table/lora.ts';
import { mediaRows } from './table/media.ts';
import { metricsRows } from './table/metrics.ts';
import { mockerRows } from './table/mocker.ts';
import { modelRows } from './table/model.ts';
import { natsRows } from './table/nats.ts';
import { plannerRows } from './table/planner.ts';
import { plannerLoopRows } from './table/planner-loop.ts';
import { plannerProcessesRows } from './table/planner-processes.ts';
import { plannerReportsRows } from './table/planner-reports.ts';
import { queueRows } from './table/queue.ts';
import { requestPlaneRows } from './table/request-plane.ts';
import { routerIndexRows } from './table/router-index.ts';
import { routerModesRows } from './table/router-modes.ts';
import { routerPolicyRows } from './table/router-policy.ts';
import { routerScoringRows } from './table/router-scoring.ts';
import { routerServicesRows } from './table/router-services.ts';
import { simulateRows } from './table/simulate.ts';
import { timingModelRows } from './table/timing-model.ts';
import { tlsRows } from './table/tls.ts';
import { workerRows } from './table/worker.ts';
import { workerLaterRows } from './table/worker-later.ts';

/** The table in sections, in the order of help and documentation: a setting is a row of one of them. */
const SECTIONS = [
  { title: 'HTTP server and routes', rows: httpRows },
  { title: 'TLS', rows: tlsRows },
  { title: 'Model and tokenizer', rows: modelRows },
  { title: 'Router modes', rows: { ...routerModesRows, ...routerServicesRows } },
  { title: 'KV router scoring', rows: { ...routerScoringRows, ...timingModelRows, ...routerPolicyRows } },
  { title: 'Router events and index', rows: routerIndexRows },
  { title: 'Queue and admission', rows: queueRows },
  { title: 'Disaggregation', rows: disaggregationRows },
  { title: 'Fault tolerance and migration', rows: faultToleranceRows },
  { title: 'Discovery', rows: discoveryRows },
  { title: 'Request plane', rows: requestPlaneRows },
  { title: 'Event plane', rows: eventPlaneRows },
  { title: 'NATS', rows: natsRows },
  { title: 'KServe gRPC', rows: grpcRows },
  { title: 'Metrics and health', rows: { ...metricsRows, ...healthRows } },
  { title: 'Logging and tracing', rows: loggingRows },
  { title: 'Worker and vLLM engine', rows: { ...workerRows, ...workerLaterRows, ...mediaRows } },
  { title: 'Mocker', rows: mockerRows },
  { title: 'KV events publishing', rows: kvEventsRows },
  { title: 'LoRA', rows: loraRows },
  { title: 'Planner', rows: { ...plannerRows, ...plannerLoopRows, ...plannerReportsRows, ...plannerProcessesRows } },
  { title: 'Simulate', rows: simulateRows },
  { title: 'Access keys', rows: accessRows },
  { title: 'Cloud', rows: cloudRows },
] as const satisfies readonly RowGroup[];

/** The sections, and at their end the names that nothing stands behind. */
export const GROUPS: readonly RowGroup[] = [...SECTIONS, { title: 'Names without effect', rows: rowsWithoutEffect }];

type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never;
type Table = AllOf<(typeof SECTIONS)[number]['rows']>;

/** Name of a setting: its first flag or variable in camel case, with its unit. */
export type SettingName = keyof Table;

type ReaderOf<R> = R extends Row<infer _V, infer P> ? P : never;
type ValueOf<R> = R extends Row<infer V, infer _P> ? V : never;

/** Type of every setting's resolved value. */
export type ValuesBySetting = { readonly [K in SettingName]: ValueOf<Table[K]> };

/** The resolved values of every setting that `P` reads. */
export type Settings<P extends Process> = {
  readonly [K in SettingName as P extends ReaderOf<Table[K]> ? K : never]: ValueOf<Table[K]>;
};

/** Every row under its setting name, in table order. */
export const TABLE: ReadonlyMap<SettingName, Row> = new Map(
  GROUPS.flatMap(({ rows }) => Object.entries(rows) as [SettingName, Row][]), // those without effect have no type: nobody reads them
);

/** The rows that `process` reads, in table order; those of one section when `group` is given. */
export function rowsOf(process: Process, group?: RowGroup): readonly (readonly [SettingName, Row])[] {
  const rows = group === undefined ? [...TABLE] : (Object.entries(group.rows) as [SettingName, Row][]); // a part of ROWS
  return rows.filter(([, row]) => row.usedBy.includes(process));
}
