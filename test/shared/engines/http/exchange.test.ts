import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { OpenExchanges } from '../../../../shared/engines/http/exchange.ts';
import type { Upstream } from '../../../../shared/engines/http/upstream.ts';
import { RecordingSink } from '../recording-sink.ts';

describe('an exchange with an engine', () => {
  it('has begun with its first event, not with bytes that only keep the connection', async () => {
    const response = new PassThrough();
    let exchange: Parameters<Upstream['send']>[1] | undefined;
    const upstream: Pick<Upstream, 'send'> = {
      send: (_message, heard) => {
        exchange = heard;
        return { drop: () => response.destroy() };
      },
    };
    const told: string[] = [];
    const reader = {
      event: (data: string) => told.push(data),
      whole: () => {},
      finish: () => told.push('finish'),
    };
    const sink = new RecordingSink();
    new OpenExchanges({ clock: systemClock, idleTimeoutMs: 60_000, probe: async () => {} }).start({
      upstream: upstream as Upstream,
      plan: { message: { path: '/generate' }, reader },
      sink,
      signal: new AbortController().signal,
      onBegun: () => told.push('begun'),
    });
    const head = { statusCode: 200, headers: { 'content-type': 'text/event-stream' } };
    exchange?.response(Object.assign(response, head) as unknown as IncomingMessage);
    response.end(': keep-alive\n\ndata: 1\n\ndata: 2\n\ndata: [DONE]\n\n');
    await sink.closed;
    expect(told).toEqual(['1', 'begun', '2', 'finish']);
  });
});
