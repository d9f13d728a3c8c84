import type { RequestListener } from 'node:http';
import type { Clock } from '../../clock/index.ts';
import { Lifetime, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { DecisionRecord, FleetPlanner, LawTick, PlannerStore, Pool } from '../../planner/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { boundsApi } from './bounds-api.ts';
import { PlannerHistory, writeReport } from './history.ts';
import { renderPlannerPage } from './planner-page.ts';
import { serveLoopback } from './serve-loopback.ts';

interface PagesDeps {
  readonly fleet: Pick<FleetPlanner, 'config' | 'group' | 'setBounds'>;
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

/** Shows a running planner beside its metrics: a page, reports, and an API that changes its bounds. */
export class PlannerPages {
  readonly #deps: PagesDeps;
  /** History since the start, and since the last report. */
  readonly #history: PlannerHistory;
  readonly #sinceReport: PlannerHistory;
  readonly #lifetime = new Lifetime();
  #reportAtMs: number;
  #reports = 0;
  #writing: Promise<void> | undefined;

  constructor(deps: PagesDeps) {
    this.#deps = deps;
    this.#history = new PlannerHistory(deps.gpusOf);
    this.#sinceReport = new PlannerHistory(deps.gpusOf);
    this.#reportAtMs = deps.clock.wallMs();
  }

  /**
   * Serves what the configuration asks for, and returns the addresses. It logs what cannot be served; the planner works
   * without it.
   */
  async serve(): Promise<Readonly<Record<string, string>>> {
    const { fleet, logger } = this.#deps;
    const { liveDashboardPort: pagePort, controlApiPort: apiPort } = fleet.config;
    const page = await this.#serve('the live page (live_dashboard_port)', pagePort, this.#page());
    const change = boundsApi(fleet, (bounds) => logger.info('the bounds were changed', { ...bounds }));
    const api = await this.#serve('the control API (control_api_port)', apiPort, change);
    return {
      ...(page === undefined ? {} : { page }),
      ...(api === undefined ? {} : { control: `${api}/v1/min-endpoints` }),
    };
  }

  ticked(tick: LawTick): void {
    const { fleet, clock } = this.#deps;
    this.#history.add(tick);
    this.#sinceReport.add(tick);
    const { reportIntervalHours: hours } = fleet.config;
    if (hours === null || clock.wallMs() - this.#reportAtMs < hours * HOUR_MS || this.#writing !== undefined) return;
    this.#reportAtMs = clock.wallMs();
    this.#writing = this.#report().finally(() => {
      this.#writing = undefined;
    });
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#lifetime.close();
  }

  async #serve(what: string, port: number, listener: RequestListener): Promise<string | undefined> {
    if (port === 0) return undefined;
    try {
      const server = await this.#lifetime.use(serveLoopback(what, port, listener, this.#deps.clock));
      return server.url;
    } catch (thrown) {
      this.#deps.logger.error(reasonOf(thrown));
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
    const { group, config } = this.#deps.fleet;
    const decisions = group === undefined ? [] : await this.#decisions(group);
    return renderPlannerPage({ group, config, points: history.points, decisions, refreshS });
  }

  #decisions(group: string): Promise<readonly DecisionRecord[]> {
    const { store, clock } = this.#deps;
    const range = { sinceMs: clock.wallMs() - WEEK_MS, countMax: DECISIONS_MAX };
    return withDeadline({ clock, timeoutMs: READ_MS_MAX }, (signal) => store.decisions(group, range, signal));
  }

  /** Never rejects. */
  async #report(): Promise<void> {
    const { fleet, logger } = this.#deps;
    try {
      const html = await this.#render(this.#sinceReport);
      const { points } = this.#sinceReport;
      this.#sinceReport.clear();
      const path = await writeReport({ html, points, number: ++this.#reports }, fleet.config);
      logger.info('a report was written', { path });
    } catch (thrown) {
      logger.warn('a report could not be written', { reason: reasonOf(thrown) });
    }
  }
}
