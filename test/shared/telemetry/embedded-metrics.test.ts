import { describe, expect, it } from 'vitest';
import { EmbeddedMetrics, type RequestEnd } from '../../../shared/telemetry/index.ts';

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

function open() {
  const lines: string[] = [];
  const count: { fallbacks: Readonly<Record<string, number>> } = { fallbacks: { silent: 3 } };
  const metrics = new EmbeddedMetrics({
    functionName: 'front',
    nowMs: () => 1000.5,
    fallbacks: () => count.fallbacks,
    write: (text) => lines.push(text),
  });
  const flushed = () => {
    metrics.flush();
    return lines.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  return { metrics, count, flushed };
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

  it('count what nobody serves, by a model that the fleet knows', () => {
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
    const names = flushed().map(({ Model }) => Model);
    expect(new Set(names).size).toBe(51);
    expect(names.filter((name) => name === '__other__')).toHaveLength(10);
    metrics.requestEnded({ ...END, model: 'model-3' });
    expect(flushed()).toMatchObject([{ Model: 'model-3' }]);
  });

  it('count what was placed without the router since the last time, with why, also when the count begins anew', () => {
    const { count, flushed } = open();
    expect(flushed()).toEqual([]);
    count.fallbacks = { silent: 4, lost: 1 };
    expect(flushed()).toMatchObject([
      { FunctionName: 'front', RouterFallbacks: 2, FallbackReasons: { silent: 1, lost: 1 } },
    ]);
    count.fallbacks = {};
    expect(flushed()).toEqual([]);
    count.fallbacks = { lost: 1 };
    expect(flushed()).toMatchObject([{ RouterFallbacks: 1, FallbackReasons: { lost: 1 } }]);
  });

  it('say why in the line only: a metric a reason would be paid for', () => {
    const { count, flushed } = open();
    count.fallbacks = { silent: 4 };
    expect(flushed()).toMatchObject([{ _aws: { CloudWatchMetrics: [{ Metrics: [{ Name: 'RouterFallbacks' }] }] } }]);
  });
});
