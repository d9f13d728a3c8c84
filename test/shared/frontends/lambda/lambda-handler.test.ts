import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import type { HostExchange } from '../../../../shared/frontends/http/exchange/exchange.ts';
import { createLambdaHandler } from '../../../../shared/frontends/lambda/lambda-handler.ts';
import type { LambdaResponseStream, ResponsePrelude } from '../../../../shared/frontends/lambda/lambda-sink.ts';
import type { FunctionApp } from '../../../../shared/frontends/lambda/running-app.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const EVENT = { httpMethod: 'GET', path: '/', headers: {} };
const REMAINING_MS = 900_000;

/** Runs one request of `serve` under a virtual clock, with a Node stream in place of the runtime's. */
function startRequest(serve: FunctionApp['serve'], more: Pick<FunctionApp, 'beforeRequest' | 'afterRequest'> = {}) {
  const clock = new VirtualClock();
  const written: string[] = [];
  const preludes: ResponsePrelude[] = [];
  const failures: ServeError[] = [];
  const stream: LambdaResponseStream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  });
  const { handler } = createLambdaHandler(async () => ({ serve, ...more }), {
    clock,
    openHttpStream: (underlying, prelude) => {
      preludes.push(prelude);
      return underlying;
    },
    onFailure: (error) => failures.push(error),
  });
  const context = {
    awsRequestId: 'r1',
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => REMAINING_MS - clock.nowMs(),
  };
  return { clock, written, preludes, failures, context, done: handler(EVENT, stream, context) };
}

describe('the deadline of a request', () => {
  it('reaches the app at the margin, and the handler takes the answer over a fifth of the margin later', async () => {
    const told: [string, number][] = [];
    const request = startRequest(({ sink, deadline }) => {
      sink.head(200, { 'content-type': 'text/event-stream' });
      deadline?.addEventListener('abort', () => told.push(['deadline', request.clock.nowMs()]));
      sink.closed.addEventListener('abort', () => told.push(['closed', request.clock.nowMs()]));
    });
    await request.clock.advance(REMAINING_MS);
    await request.done;
    expect(told).toEqual([
      ['deadline', REMAINING_MS - 10_000],
      ['closed', REMAINING_MS - 8000],
    ]);
    expect(request.written.join('')).toContain('"code":"deadline_exceeded"');
    expect(request.failures.map(({ code }) => code)).toEqual(['deadline_exceeded']);
    expect(request.clock.pendingTimers).toBe(0);
  });

  it('leaves no timer and no wait behind when the answer ends in time', async () => {
    const request = startRequest(({ sink }) => {
      sink.head(200, {});
      sink.write('done');
      sink.end();
    });
    await request.done;
    expect(request.context.callbackWaitsForEmptyEventLoop).toBe(false);
    expect(request.clock.pendingTimers).toBe(0);
    expect([request.written, request.failures]).toEqual([['done'], []]);
  });

  it('passes a failure that cannot be told in the answer on to the runtime, once', async () => {
    const request = startRequest(({ sink }) => {
      sink.head(200, { 'content-type': 'application/json' });
      sink.write('{"half":');
      throw new ServeError('worker_lost', 'gone');
    });
    await expect(request.done).rejects.toMatchObject({ code: 'worker_lost' });
    expect(request.failures.map(({ code }) => code)).toEqual(['worker_lost']);
    expect(request.clock.pendingTimers).toBe(0);
  });

  it('writes to nothing after the end', async () => {
    const request = startRequest(({ sink }) => {
      sink.head(200, {});
      sink.end();
      sink.write('late');
      sink.head(500, {});
      sink.end();
    });
    await request.done;
    expect([request.written.join(''), request.preludes]).toEqual(['', [{ statusCode: 200, headers: {} }]]);
  });
});

describe('what stood still while the environment was frozen', () => {
  const answered = ({ sink }: HostExchange): void => {
    sink.head(200, {});
    sink.write('done');
    sink.end();
  };

  it('is brought up to date before the app sees the request', async () => {
    const order: string[] = [];
    let isCurrent = (): void => {};
    const request = startRequest(
      (exchange) => {
        order.push('request');
        answered(exchange);
      },
      {
        beforeRequest: async () => {
          await new Promise<void>((resolve) => {
            isCurrent = resolve;
          });
          order.push('current');
        },
      },
    );
    await request.clock.advance(1000);
    expect(order).toEqual([]);
    isCurrent();
    await request.done;
    expect([order, request.written]).toEqual([['current', 'request'], ['done']]);
  });

  it('does not keep the request beyond its deadline', async () => {
    const signals: AbortSignal[] = [];
    const request = startRequest(answered, {
      beforeRequest: (signal) => {
        signals.push(signal);
        return new Promise(() => {});
      },
    });
    await request.clock.advance(REMAINING_MS);
    await request.done;
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(request.preludes).toMatchObject([{ statusCode: 504 }]);
    expect(request.written.join('')).toContain('"code":"deadline_exceeded"');
  });

  it('fails the request when it cannot be, as every other failure', async () => {
    const request = startRequest(answered, { beforeRequest: () => Promise.reject(new Error('closed')) });
    await request.done;
    expect(request.preludes).toMatchObject([{ statusCode: 500 }]);
    expect(request.failures.map(({ code }) => code)).toEqual(['internal_error']);
  });

  it('sends what must not wait once the client has its whole answer, before it is frozen again', async () => {
    const order: string[] = [];
    let isSent = (): void => {};
    let frozen: Promise<unknown> = Promise.resolve();
    const sending = new Promise<void>((started) => {
      const request = startRequest(answered, {
        afterRequest: async () => {
          order.push(`after ${request.written.join('')}`);
          started();
          await new Promise<void>((resolve) => {
            isSent = resolve;
          });
          order.push('sent');
        },
      });
      frozen = request.done.then(() => order.push('frozen'));
    });
    await sending;
    expect(order).toEqual(['after done']);
    isSent();
    await frozen;
    expect(order).toEqual(['after done', 'sent', 'frozen']);
  });
});

describe('an app that no longer holds what it was started with', () => {
  /** A function whose apps are started by the test, each of which answers with its number. */
  function startFunction() {
    const clock = new VirtualClock();
    const starts: { readonly start: () => void; readonly fail: () => void }[] = [];
    const closed: number[] = [];
    const told: string[] = [];
    let outdated = -1;
    const { handler } = createLambdaHandler(
      () =>
        new Promise<FunctionApp>((resolve, reject) => {
          const at = starts.length;
          const serve: FunctionApp['serve'] = ({ sink }) => {
            sink.head(200, {});
            sink.write(String(at));
            sink.end();
          };
          const app = { serve, isOutdated: () => at <= outdated, close: async () => void closed.push(at) };
          starts.push({ start: () => resolve(app), fail: () => reject(new Error('the table is unreachable')) });
        }),
      {
        clock,
        openHttpStream: (underlying) => underlying,
        onFailure() {},
        onServedOn: (cause) => told.push(String(cause)),
      },
    );
    const ask = () => {
      const asked = { text: '' };
      const stream = new Writable({
        decodeStrings: false,
        write(chunk, _encoding, done) {
          asked.text += String(chunk);
          done();
        },
      });
      const getRemainingTimeInMillis = (): number => REMAINING_MS;
      const done = handler(EVENT, stream, {
        awsRequestId: 'r',
        callbackWaitsForEmptyEventLoop: true,
        getRemainingTimeInMillis,
      });
      return Object.assign(asked, { done });
    };
    const outdate = (at: number): void => {
      outdated = at;
    };
    return { clock, starts, closed, told, ask, outdate };
  }

  it('is replaced before a request is served, and closed', async () => {
    const { starts, closed, ask, outdate } = startFunction();
    starts[0]?.start();
    const first = ask();
    await first.done;
    outdate(0);
    const second = ask();
    await Promise.resolve();
    await Promise.resolve();
    starts[1]?.start();
    await second.done;
    expect([first.text, second.text, starts.length, closed]).toEqual(['0', '1', 2, [0]]);
  });

  it('serves on while another cannot start, without a wait for five seconds after each failure', async () => {
    const { clock, starts, closed, told, ask, outdate } = startFunction();
    starts[0]?.start();
    outdate(0);
    const first = ask();
    await clock.advance(0);
    starts[1]?.fail();
    await first.done;
    for (let request = 0; request < 3; request++) {
      const asked = ask();
      await asked.done;
      expect(asked.text).toBe('0');
    }
    expect([starts.length, closed, told]).toEqual([2, [], ['Error: the table is unreachable']]);
    await clock.advance(5000);
    const later = ask();
    await clock.advance(0);
    starts[2]?.start();
    await later.done;
    expect([later.text, closed]).toEqual(['2', [0]]);
  });

  it('serves a request that another does not start for within a second; the next one has the other', async () => {
    const { clock, starts, closed, ask, outdate } = startFunction();
    starts[0]?.start();
    outdate(0);
    const first = ask();
    await clock.advance(999);
    expect(first.text).toBe('');
    await clock.advance(1);
    await first.done;
    expect([first.text, closed]).toEqual(['0', []]);
    starts[1]?.start();
    const second = ask();
    await second.done;
    expect([second.text, starts.length, closed]).toEqual(['1', 2, [0]]);
  });
});
