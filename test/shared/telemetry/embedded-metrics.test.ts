import { describe, expect, it } from 'vitest';
import { EMBEDDED_METRICS, EmbeddedMetrics, MetricRegistry } from '../../../shared/telemetry/index.ts';
import type { EmbeddedGauges, EmbeddedMetricsOptions } from '../../../shared/telemetry/records/embedded-metrics.ts';
import type { RequestEnd } from '../../../shared/telemetry/records/request-records.ts';

const END: RequestEnd = {
  requestId: 'r',
  clientRequestId: undefined,
  model: 'tiny',
  endpoint: 'chat_completions',
  status: 200,
  errorType: undefined,
  receivedMs: 0,
  totalMs: 100,
  ttftMs: 12.34567,
  inputTokens: 3,
  outputTokens: 7,
  cachedTokens: 0,
  agentContext: undefined,
};
const REFUSED = { ...END, status: 503, errorType: 'unavailable', ttftMs: undefined, outputTokens: undefined };
const FUNCTION = { dimension: 'FunctionName', name: 'front', version: '7' } as const;

interface Directive {
  readonly Namespace: string;
  readonly Dimensions: readonly (readonly string[])[];
  readonly Metrics: readonly { readonly Name: string; readonly Unit: string }[];
}
type Line = Record<string, unknown> & { readonly _aws: { readonly CloudWatchMetrics: readonly Directive[] } };

function open(source: EmbeddedMetricsOptions['source'] = FUNCTION, frontendPrefix?: string) {
  const lines: string[] = [];
  let registry = new MetricRegistry({ frontendPrefix });
  let gauges: EmbeddedGauges = {};
  const metrics = new EmbeddedMetrics({
    source,
    nowMs: () => 1000.5,
    totals: (metric, label) => registry.totalsBy(metric, label),
    gauges: () => gauges,
    write: (text) => lines.push(text),
  });
  const written = () => lines.splice(0).map((line) => JSON.parse(line) as Line);
  const families = () => ({
    fallbacks: registry.counter('stator_router_fallbacks_total', 'About.', 'reason'),
    requests: registry.counter('dynamo_frontend_requests_total', 'About.', 'model', 'error_type'),
    outside: registry.counter('stator_frontend_handler_failures_total', 'About.').with(),
  });
  return {
    metrics,
    counters: families(),
    measure: (now: EmbeddedGauges) => {
      gauges = now;
    },
    startAnew: () => {
      registry = new MetricRegistry();
      return families();
    },
    written,
    flushed: () => {
      metrics.flush();
      return written();
    },
  };
}

describe('metrics of a function in its log', () => {
  it('are one line a request, in the format that CloudWatch reads, for the function and for the model', () => {
    const { metrics, flushed } = open();
    metrics.requestEnded(END);
    expect(flushed()).toEqual([
      {
        _aws: {
          Timestamp: 1001,
          CloudWatchMetrics: [
            {
              Namespace: 'Stator',
              Dimensions: [['FunctionName'], ['FunctionName', 'Model']],
              Metrics: [
                { Name: 'TimeToFirstToken', Unit: 'Milliseconds' },
                { Name: 'OutputTokens', Unit: 'Count' },
              ],
            },
          ],
        },
        FunctionName: 'front',
        Model: 'tiny',
        TimeToFirstToken: 12.346,
        OutputTokens: 7,
      },
    ]);
    expect(flushed()).toEqual([]);
  });

  it('count requests that no worker serves, by a model that the fleet knows', () => {
    const { metrics, flushed } = open();
    metrics.requestEnded(REFUSED);
    expect(flushed()).toMatchObject([{ Model: 'tiny', Unserved: 1 }]);
  });

  it('write nothing of models that only a client knows', () => {
    const { metrics, flushed } = open();
    metrics.requestEnded({ ...REFUSED, model: 'made up', status: 404, errorType: 'not_found' });
    expect(flushed()).toEqual([]);
  });

  it('give at most fifty models names of their own', () => {
    const { metrics, flushed } = open();
    for (let at = 0; at < 60; at++) metrics.requestEnded({ ...END, model: `model-${at}` });
    const lines = flushed();
    const names = lines.map(({ Model }) => Model);
    expect(new Set(names).size).toBe(51);
    expect(lines.find(({ Model }) => Model === '__other__')).toMatchObject({ OutputTokens: 70 });
    metrics.requestEnded({ ...END, model: 'model-3' });
    expect(flushed()).toMatchObject([{ Model: 'model-3' }]);
  });

  it('count what was placed without the router since the last time, with why, also when the count begins anew', () => {
    const { counters, startAnew, flushed } = open();
    counters.fallbacks.with('silent').add(1);
    counters.fallbacks.with('lost').add(1);
    expect(flushed()).toMatchObject([
      { FunctionName: 'front', RouterFallbacks: 2, FallbackReasons: { silent: 1, lost: 1 } },
    ]);
    expect(flushed()).toEqual([]);
    const { fallbacks } = startAnew();
    expect(flushed()).toEqual([]);
    fallbacks.with('lost').add(1);
    expect(flushed()).toMatchObject([{ RouterFallbacks: 1, FallbackReasons: { lost: 1 } }]);
  });

  it('say why in the line only: a metric a reason would be paid for', () => {
    const { counters, flushed } = open();
    counters.fallbacks.with('silent').add(1);
    expect(flushed()).toMatchObject([{ _aws: { CloudWatchMetrics: [{ Metrics: [{ Name: 'RouterFallbacks' }] }] } }]);
  });
});

describe('the rate of faults of our own', () => {
  it('has a 1 for each request that one ended and a 0 for every other, by function and by its release', () => {
    const { metrics, counters, flushed } = open();
    counters.requests.with('tiny', '').add(1);
    metrics.requestEnded(END);
    const [line] = flushed();
    expect(line).toMatchObject({ Model: 'tiny', FunctionVersion: '7', InternalErrors: 0 });
    expect(line?._aws.CloudWatchMetrics.at(-1)).toEqual({
      Namespace: 'Stator',
      Dimensions: [['FunctionName'], ['FunctionName', 'FunctionVersion']],
      Metrics: [{ Name: 'InternalErrors', Unit: 'Count' }],
    });
    counters.requests.with('tiny', 'internal').add(1);
    expect(flushed()).toMatchObject([{ InternalErrors: 1, FunctionVersion: '7' }]);
  });

  it.each(['unavailable', 'overload', 'validation', 'not_found', 'cancelled', 'response_timeout', 'not_implemented'])(
    'is not moved by requests that are refused or fail as %s',
    (errorType) => {
      const { counters, flushed } = open();
      counters.requests.with('tiny', errorType).add(3);
      expect(flushed()).toMatchObject([{ InternalErrors: [0, 0, 0] }]);
    },
  );

  it('counts what failed before anything of a request was counted, in the app or in its host', () => {
    const { metrics, counters, flushed } = open();
    counters.outside.add(1);
    metrics.failed();
    expect(flushed()).toMatchObject([{ InternalErrors: [1, 1] }]);
    expect(flushed()).toEqual([]);
  });

  it('is read under any prefix of the metrics, and takes as many lines as CloudWatch wants', () => {
    const { counters, flushed } = open({ dimension: 'Service', name: 'edge' }, 'mine');
    counters.requests.with('tiny', '').add(249);
    counters.requests.with('tiny', 'internal').add(1);
    const lines = flushed();
    expect(lines.map(({ InternalErrors }) => (InternalErrors as number[]).length)).toEqual([100, 100, 50]);
    const all = lines.flatMap(({ InternalErrors }) => InternalErrors as number[]);
    expect(all.filter((value) => value === 1)).toHaveLength(1);
    for (const { _aws } of lines) expect(_aws.CloudWatchMetrics[0]?.Dimensions).toEqual([['Service']]);
  });
});

describe('metrics of containers in their log', () => {
  const openService = () => open({ dimension: 'Service', name: 'edge' });

  it('are one line a model for all requests since the last time', () => {
    const { metrics, flushed } = openService();
    for (const ttftMs of [1, 2, 3]) metrics.requestEnded({ ...END, ttftMs });
    metrics.requestEnded(REFUSED);
    metrics.requestEnded({ ...END, model: 'other' });
    expect(flushed()).toMatchObject([
      { Service: 'edge', Model: 'tiny', TimeToFirstToken: [1, 2, 3], OutputTokens: 21, Unserved: 1 },
      { Service: 'edge', Model: 'other', TimeToFirstToken: 12.346, OutputTokens: 7 },
    ]);
  });

  it('leave at once when a line is full: no request is left out of a percentile', () => {
    const { metrics, written, flushed } = openService();
    for (let at = 0; at < 250; at++) metrics.requestEnded(END);
    expect(written().map(({ TimeToFirstToken }) => (TimeToFirstToken as number[]).length)).toEqual([100, 100]);
    expect(flushed().map(({ TimeToFirstToken }) => (TimeToFirstToken as number[]).length)).toEqual([50]);
  });

  it('say how many streams there are, how old the view is and who serves each model', () => {
    const { measure, flushed } = openService();
    measure({ activeStreams: 4, viewAgeMs: 1234.56, workers: new Map([['tiny', 2]]) });
    expect(flushed()).toMatchObject([{ Service: 'edge', ActiveStreams: 4, ViewAge: 1.235, Model: 'tiny', Workers: 2 }]);
    measure({});
    expect(flushed()).toEqual([]);
  });

  it('say that no worker serves a model any more', () => {
    const { measure, flushed } = openService();
    measure({ workers: new Map([['tiny', 2]]) });
    flushed();
    measure({ workers: new Map() });
    expect(flushed()).toMatchObject([{ Model: 'tiny', Workers: 0 }]);
    expect(flushed()).toMatchObject([{ Model: 'tiny', Workers: 0 }]);
  });

  it('are only gauges while no request comes', () => {
    const { measure, flushed } = openService();
    measure({ activeStreams: 0, viewAgeMs: 1, secretAgeMs: 1, workers: new Map([['tiny', 0]]) });
    const told = flushed().flatMap(({ _aws }) => _aws.CloudWatchMetrics.flatMap(({ Metrics }) => Metrics));
    const gauges = Object.entries(EMBEDDED_METRICS).filter(([, { isGauge }]) => isGauge);
    expect(told.map(({ Name }) => Name).sort()).toEqual(gauges.map(([name]) => name).sort());
  });

  it('have the units and dimensions of the list that is paid for, and no others', () => {
    const { metrics, counters, measure, flushed } = openService();
    metrics.requestEnded(END);
    metrics.requestEnded(REFUSED);
    counters.requests.with('tiny', '').add(1);
    counters.fallbacks.with('silent').add(1);
    measure({ activeStreams: 4, viewAgeMs: 1, secretAgeMs: 1, workers: new Map([['tiny', 2]]) });
    const told = flushed().flatMap(({ _aws }) =>
      _aws.CloudWatchMetrics.flatMap(({ Dimensions, Metrics }) =>
        Metrics.flatMap(({ Name, Unit }) => Dimensions.map((set) => `${Name} ${Unit} ${set.join()}`)),
      ),
    );
    const listed = Object.entries(EMBEDDED_METRICS).flatMap(([name, { unit, by }]) =>
      by.map((set: readonly string[]) => `${name} ${unit} ${['Service', ...set].join()}`),
    );
    expect(told.sort()).toEqual(listed.filter((line) => !line.endsWith('FunctionVersion')).sort());
  });
});
