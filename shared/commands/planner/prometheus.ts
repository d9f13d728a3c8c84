import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { Settings } from '../../config/index.ts';
import { NO_TRAFFIC, type TrafficTotals } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import { metricPrefix } from '../../telemetry/index.ts';

export interface PrometheusOptions {
  readonly url: string;
  readonly token?: string | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly namespace: string;
  /** Beginning of the names of a frontend's metrics (`--metrics-prefix`). @default `dynamo_frontend` */
  readonly prefix?: string;
  onProblem(problem: string): void;
}

/**
 * Sums of the frontends, by their names here. `started` is read first; older frontends only count ended requests.
 */
const QUERIES: readonly (readonly [key: keyof TrafficTotals, metric: string])[] = [
  ['ttft_sum_s', 'time_to_first_token_seconds_sum'],
  ['ttft_count', 'time_to_first_token_seconds_count'],
  ['itl_sum_s', 'inter_token_latency_seconds_sum'],
  ['itl_count', 'inter_token_latency_seconds_count'],
  ['isl_sum', 'input_sequence_tokens_sum'],
  ['isl_count', 'input_sequence_tokens_count'],
  ['osl_sum', 'output_sequence_tokens_sum'],
  ['osl_count', 'output_sequence_tokens_count'],
  ['dur_sum_s', 'request_duration_seconds_sum'],
  ['dur_count', 'request_duration_seconds_count'],
];
const STARTED = ['requests_started_total', 'requests_total'];
const ANSWER_BYTES_MAX = 1 << 20;

/**
 * Reads a fleet's traffic from Prometheus, as its frontends count it under Dynamo's names. A restarted frontend counts
 * from zero, so Prometheus sums by how much each has grown. The result is undefined if the count of requests is not
 * available: the demand is then unknown, never 0.
 */
export class PrometheusTraffic {
  readonly #options: PrometheusOptions;
  /** Sums so far; Prometheus says how much they have grown. */
  #totals: TrafficTotals = NO_TRAFFIC;
  #readAtS: number | undefined;

  constructor(options: PrometheusOptions) {
    this.#options = options;
  }

  /**
   * @param nowS Unix seconds
   * @param model its traffic counts; undefined = that of all models
   */
  async read(nowS: number, model: string | undefined, signal: AbortSignal): Promise<TrafficTotals | undefined> {
    const fromS = this.#readAtS ?? nowS - FIRST_WINDOW_S;
    // Prometheus takes a sample every few seconds: a shorter window may hold none.
    const seconds = Math.max(FIRST_WINDOW_S, Math.ceil(nowS - fromS));
    const share = this.#readAtS === undefined ? 0 : (nowS - fromS) / seconds;
    try {
      const started = await this.#firstKnown(STARTED, { seconds, model }, signal);
      if (started === undefined) throw new Error('it has no count of requests of this model');
      const grown: Record<string, number> = { started: Math.round(started * share) };
      for (const [key, metric] of QUERIES) {
        const value = (await this.#ask(metric, { seconds, model }, signal)) ?? 0;
        grown[key] = key.endsWith('_s') ? value * share : Math.round(value * share);
      }
      this.#readAtS = nowS;
      const keys = Object.keys(NO_TRAFFIC) as (keyof TrafficTotals)[];
      this.#totals = Object.fromEntries(
        keys.map((key) => [key, this.#totals[key] + (grown[key] ?? 0)]),
      ) as TrafficTotals;
      return this.#totals;
    } catch (thrown) {
      signal.throwIfAborted();
      this.#options.onProblem(
        `Prometheus at ${this.#options.url}: ${thrown instanceof Error ? thrown.message : thrown}`,
      );
      return undefined;
    }
  }

  async #firstKnown(metrics: readonly string[], asked: Asked, signal: AbortSignal): Promise<number | undefined> {
    for (const metric of metrics) {
      const value = await this.#ask(metric, asked, signal);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** Returns by how much a sum has grown over all frontends; undefined if there is no such sum, or no number. */
  async #ask(metric: string, { seconds, model }: Asked, signal: AbortSignal): Promise<number | undefined> {
    const { url, token, timeoutMs, namespace, clock } = this.#options;
    // Labels match regardless of case; special characters of patterns are escaped.
    const labels =
      model === undefined ? '' : `{model=~"(?i)${escaped(model)}",dynamo_namespace=~"${escaped(namespace)}|"}`;
    const query = `sum(increase(${metricPrefix(this.#options.prefix)}_${metric}${labels}[${seconds}s]))`;
    const address = `${url.replace(/\/$/, '')}/api/v1/query?query=${encodeURIComponent(query)}`;
    const headers = token === undefined ? undefined : { authorization: `Bearer ${token}` };
    const text = await withDeadline({ clock, timeoutMs, signal }, (within) => textOf(address, headers, within));
    return numberOf(JSON.parse(text));
  }
}

const FIRST_WINDOW_S = 30;

/** A window that ends now, and the model whose frontends are asked about. */
interface Asked {
  readonly seconds: number;
  readonly model: string | undefined;
}

/** Returns a reader of the traffic in Prometheus; undefined if the settings name none. */
export function prometheusTraffic(
  settings: Settings<'planner'>,
  namespace: string,
  clock: Clock,
  onProblem: (problem: string) => void,
) {
  const { prometheusEndpoint: url, prometheusToken: token } = settings;
  if (url === undefined) return undefined;
  const timeoutMs = settings.plannerPrometheusRequestTimeoutSeconds * 1000;
  const prefix = settings.metricsPrefix;
  const traffic = new PrometheusTraffic({ url, token, timeoutMs, clock, namespace, prefix, onProblem });
  return (model: string | undefined, signal: AbortSignal) => traffic.read(clock.wallMs() / 1000, model, signal);
}

async function textOf(
  address: string,
  headers: Record<string, string> | undefined,
  signal: AbortSignal,
): Promise<string> {
  const response = await fetch(address, { ...(headers === undefined ? {} : { headers }), signal });
  const text = await response.text();
  if (!response.ok) throw new Error(`it answered ${response.status}: ${text.slice(0, 200)}`);
  if (text.length > ANSWER_BYTES_MAX) throw new Error(`its answer has ${text.length} bytes`);
  return text;
}

function numberOf(answer: unknown): number | undefined {
  const result = isRecord(answer) && isRecord(answer.data) ? answer.data.result : undefined;
  const [first] = Array.isArray(result) ? result : [];
  if (!isRecord(first) || !Array.isArray(first.value)) return undefined;
  const said: unknown = first.value[1];
  if (said === 'NaN') return 0; // a window without requests
  const value = Number(said);
  if (!(value >= 0 && value <= 1e15)) throw new Error(`it said ${String(said).slice(0, 100)}`);
  return value;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\\\$&').replaceAll('"', '\\"');
}
