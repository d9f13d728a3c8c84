import type { RequestListener } from 'node:http';
import type { Clock } from '../../clock/index.ts';
import { Lifetime, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { DecisionRecord, FleetPlanner, LawTick, Pool } from '../../planner/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { boundsApi } from './bounds-api.ts';
import { PlannerHistory, writeReport } from './history.ts';
import { livePage } from './live-page.ts';
import { renderPlannerPage } from './planner-page.ts';
import { type PlannerRecordStore, recordsIn } from './planner-sources.ts';
import { serveLoopback } from './serve-loopback.ts';

interface PagesDeps {
  readonly fleet: Pick<FleetPlanner, 'config' | 'group' | 'setBounds'>;
  readonly store: PlannerRecordStore;
  readonly clock: Clock;
  readonly logger: Logger;
  gpusOf(pool: Pool): number;
}

const READ_MS_MAX = 5000;
const DECISIONS_MAX = 50;
const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;

/**
 * Shows a running planner beside its metrics: the Planner page of the console, reports, and an API that changes its
 * bounds.
 */
export class PlannerPages {
  readonly #deps: PagesDeps;
  /** History since the last report. */
  readonly #sinceReport: PlannerHistory;
  readonly #lifetime = new Lifetime();
  #reportAtMs: number;
  #reports = 0;
  #writing: Promise<void> | undefined;

  constructor(deps: PagesDeps) {
    this.#deps = deps;
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
    const page = pagePort === 0 ? undefined : await this.#serveLivePage(pagePort);
    const change = boundsApi(fleet, (bounds) => logger.info('the bounds were changed', { ...bounds }));
    const api = await this.#serve('the control API (control_api_port)', apiPort, change);
    return {
      ...(page === undefined ? {} : { page }),
      ...(api === undefined ? {} : { control: `${api}/v1/min-endpoints` }),
    };
  }

  ticked(tick: LawTick): void {
    const { fleet, clock } = this.#deps;
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

  async #serveLivePage(port: number): Promise<string | undefined> {
    const { fleet, store, clock } = this.#deps;
    // The folder may have decisions of other planners, which have pages of their own
    const groups = async (): Promise<readonly string[]> => (fleet.group === undefined ? [] : [fleet.group]);
    const live = this.#lifetime.use(livePage(clock, { ...recordsIn(store), groups }));
    return this.#serve('the live page (live_dashboard_port)', port, live.listener);
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

  async #render(history: PlannerHistory): Promise<string> {
    const { group, config } = this.#deps.fleet;
    const decisions = group === undefined ? [] : await this.#decisions(group);
    return renderPlannerPage({ group, config, points: history.points, decisions });
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
