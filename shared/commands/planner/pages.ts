import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { namesThisMachine } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { createServiceServer } from '../../fleet/index.ts';
import type { DecisionRecord, FleetPlanner, LawTick, PlannerStore, Pool } from '../../planner/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { boundsApi } from './bounds-api.ts';
import { PlannerHistory, writeReport } from './history.ts';
import { renderPlannerPage } from './planner-page.ts';

/** A whole request has to arrive within this; what is late is sought every `CHECK_MS`. */
const REQUEST_MS_MAX = 10_000;
const CHECK_MS = 2000;
const CONNECTIONS_MAX = 64;
const FOREIGN = '{"error":"ask 127.0.0.1 or localhost"}\n';

export interface LoopbackServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves on loopback, for people and programs of this machine: a page in a browser may not reach it by a name that was made to
 * point here. @throws Error with one line where the port is taken
 */
export async function serveLoopback(
  what: string,
  port: number,
  listener: RequestListener,
  clock: Clock,
): Promise<LoopbackServer> {
  const limits = { requestTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: CHECK_MS };
  const { server } = createServiceServer(
    limits,
    undefined,
    (request, response) => {
      if (namesThisMachine(request.headers.host)) listener(request, response);
      else response.writeHead(403, { 'content-type': 'application/json' }).end(FOREIGN);
    },
    clock,
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (thrown) {
    throw new Error(`cannot serve ${what} on port ${port}: ${(thrown as Error).message}`);
  }
  server.unref();
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface PagesParts {
  fleet(): FleetPlanner;
  readonly store: Pick<PlannerStore, 'decisions'>;
  readonly clock: Clock;
  readonly logger: Logger;
  gpusOf(pool: Pool): number;
}

const READ_MS_MAX = 5000;
const DECISIONS_MAX = 50;
const REFRESH_S = 5;
const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;

/** What a running planner shows of itself beside its metrics: a page, reports, and a place to change its bounds. */
export class PlannerPages {
  readonly #parts: PagesParts;
  /** Since the start, and since the last report. */
  readonly #history: PlannerHistory;
  readonly #sinceReport: PlannerHistory;
  readonly #servers: LoopbackServer[] = [];
  #reportAtMs: number;
  #reports = 0;
  #writing: Promise<void> | undefined;

  constructor(parts: PagesParts) {
    this.#parts = parts;
    this.#history = new PlannerHistory(parts.gpusOf);
    this.#sinceReport = new PlannerHistory(parts.gpusOf);
    this.#reportAtMs = parts.clock.wallMs();
  }

  /** Serves what the configuration asks for; the planner works without what cannot be served, which is told. Returns addresses. */
  async serve(): Promise<Readonly<Record<string, string>>> {
    const { fleet, logger } = this.#parts;
    const { live_dashboard_port: pagePort, control_api_port: apiPort } = fleet().config;
    const page = await this.#serve('the live page (live_dashboard_port)', pagePort, this.#page());
    const change = boundsApi(fleet, (bounds) => logger.info('the bounds were changed', { ...bounds }));
    const api = await this.#serve('the control API (control_api_port)', apiPort, change);
    return {
      ...(page === undefined ? {} : { page }),
      ...(api === undefined ? {} : { control: `${api}/v1/min-endpoints` }),
    };
  }

  ticked(tick: LawTick): void {
    const { fleet, clock } = this.#parts;
    this.#history.add(tick);
    this.#sinceReport.add(tick);
    const { report_interval_hours: hours } = fleet().config;
    if (hours === null || clock.wallMs() - this.#reportAtMs < hours * HOUR_MS || this.#writing !== undefined) return;
    this.#reportAtMs = clock.wallMs();
    this.#writing = this.#report().finally(() => {
      this.#writing = undefined;
    });
  }

  async close(): Promise<void> {
    await this.#writing;
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  async #serve(what: string, port: number, listener: RequestListener): Promise<string | undefined> {
    if (port === 0) return undefined;
    try {
      const server = await serveLoopback(what, port, listener, this.#parts.clock);
      this.#servers.push(server);
      return server.url;
    } catch (thrown) {
      this.#parts.logger.error(reasonOf(thrown));
      return undefined;
    }
  }

  #page(): RequestListener {
    return (request, response) => {
      if (request.url !== '/') {
        response.writeHead(404).end('only / is here\n');
        return;
      }
      this.#render(this.#history, REFRESH_S).then(
        (html) => response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(html),
        (thrown: unknown) => response.writeHead(500).end(`${reasonOf(thrown)}\n`),
      );
    };
  }

  async #render(history: PlannerHistory, refreshS?: number): Promise<string> {
    const { group, config } = this.#parts.fleet();
    const decisions = group === undefined ? [] : await this.#decisions(group);
    return renderPlannerPage({ group, config, points: history.points, decisions, refreshS });
  }

  #decisions(group: string): Promise<readonly DecisionRecord[]> {
    const { store, clock } = this.#parts;
    const range = { sinceMs: clock.wallMs() - WEEK_MS, countMax: DECISIONS_MAX };
    return withDeadline({ clock, timeoutMs: READ_MS_MAX }, (signal) => store.decisions(group, range, signal));
  }

  /** Never rejects. */
  async #report(): Promise<void> {
    const { fleet, logger } = this.#parts;
    try {
      const html = await this.#render(this.#sinceReport);
      const { points } = this.#sinceReport;
      this.#sinceReport.clear();
      const path = await writeReport({ html, points, number: ++this.#reports }, fleet().config);
      logger.info('a report was written', { path });
    } catch (thrown) {
      logger.warn('a report could not be written', { reason: reasonOf(thrown) });
    }
  }
}
