import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { captureLogger, createLogger, type LoggerOptions, silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function written(options: LoggerOptions = {}) {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { lines, logger: createLogger({ destination, clock: new VirtualClock(), ...options }) };
}

function writtenJson(options: LoggerOptions = {}) {
  const { lines, logger } = written({ jsonl: true, ...options });
  return { logger, records: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

describe('a logger for people', () => {
  it('writes time, level, target, message and fields on one line', () => {
    const { lines, logger } = written();
    logger.for('pipeline').info('chose a worker', { worker_id: '1f', overlap: 3, cold: true, text: 'a b', none: null });
    expect(lines).toEqual([
      '2023-11-14T22:13:20.000Z  INFO pipeline: chose a worker worker_id=1f overlap=3 cold=true text="a b" none=null\n',
    ]);
  });

  it('keeps text from outside on its line and away from the terminal', () => {
    const { lines, logger } = written();
    logger.warn('evil\nINFO fake\u001b[2J', { path: '/a\r\n/b', esc: '\u009b1m' });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^[ -~]+\n$/);
    expect(lines[0]).toContain('evil\\u000aINFO fake\\u001b[2J path="/a\\r\\n/b" esc="\\u009b1m"');
  });

  it('writes local time with its offset when asked to', () => {
    const { lines, logger } = written({ useLocalTime: true });
    logger.info('now');
    const stamp = lines[0]?.split(' ')[0] ?? '';
    expect(stamp).toMatch(/T\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d$/);
    expect(Date.parse(stamp)).toBe(1_700_000_000_000);
  });
});

describe('a logger on a terminal', () => {
  it('writes the time of the day alone, and paints what is not the message', () => {
    const plain = written({ isTerminal: true });
    plain.logger.for('http').info('up', { port: 1 });
    expect(plain.lines).toEqual(['22:13:20.000  INFO http: up port=1\n']);
    const painted = written({ isTerminal: true, isPainted: true });
    painted.logger.for('http').warn('up\u001b[2J', { port: 1 });
    expect(painted.lines[0]).toBe(
      '\u001b[2m22:13:20.000\u001b[0m \u001b[33m WARN\u001b[0m \u001b[2mhttp:\u001b[0m up\\u001b[2J \u001b[2mport=\u001b[0m1\n',
    );
  });
});

describe('a line with details', () => {
  it('has them for machines, and for people who ask for more', () => {
    const short = written();
    short.logger.info('done', { ms: 3 }, { elapsed_ms: 3.14, id: 'x' });
    expect(short.lines[0]).toMatch(/done ms=3\n$/);
    const detailed = written({ filter: 'debug' });
    detailed.logger.info('done', { ms: 3 }, { elapsed_ms: 3.14, id: 'x' });
    expect(detailed.lines[0]).toMatch(/done elapsed_ms=3\.14 id=x\n$/);
    const { logger, records } = writtenJson();
    logger.info('done', { ms: 3 }, { elapsed_ms: 3.14, id: 'x' });
    expect(records()[0]).toMatchObject({ elapsed_ms: 3.14, id: 'x' });
    expect(records()[0]).not.toHaveProperty('ms');
  });
});

describe('a JSONL logger', () => {
  it('writes one object a line with the agreed names', () => {
    const { logger, records } = writtenJson();
    logger.for('http').error('failed', { status: 500 });
    expect(records()).toEqual([
      { level: 'ERROR', time: '2023-11-14T22:13:20.000Z', target: 'http', status: 500, message: 'failed' },
    ]);
  });

  it('moves fields aside that would hide the names of the line itself', () => {
    const { logger, records } = writtenJson();
    logger.info('real', { message: 'fake', level: 'fake', time: 'fake', target: 'fake' });
    expect(records()[0]).toMatchObject({
      message: 'real',
      level: 'INFO',
      target: 'stator',
      message_: 'fake',
      time_: 'fake',
    });
  });

  it('writes one physical line whatever the message holds', () => {
    const { lines, logger } = written({ jsonl: true });
    logger.info('two\nlines', { text: 'three\nmore' });
    expect(lines.join('').match(/\n/g)).toHaveLength(1);
  });
});

describe('the filter', () => {
  it.each([
    ['off', []],
    ['error', ['error']],
    ['warn', ['warn', 'error']],
    ['info', ['info', 'warn', 'error']],
    ['debug', ['debug', 'info', 'warn', 'error']],
    ['trace', ['debug', 'info', 'warn', 'error']],
  ])('at %s lets through %j', (filter, passed) => {
    const { logger, records } = writtenJson({ filter });
    for (const level of ['debug', 'info', 'warn', 'error'] as const) logger[level]('line');
    expect(records().map((record) => String(record.level).toLowerCase())).toEqual(passed);
  });

  it('works target by target, also for loggers with fields', () => {
    const { logger, records } = writtenJson({ filter: 'off,router=debug' });
    logger.for('http').error('dropped');
    logger.for('router').with({ a: 1 }).debug('kept');
    expect(records().map(({ target, message }) => [target, message])).toEqual([['router', 'kept']]);
  });

  it('does not look at the fields of a line that it drops', () => {
    const { logger } = written({ filter: 'info' });
    const trap = Object.defineProperty({}, 'field', { enumerable: true, get: () => expect.unreachable('was read') });
    logger.with(trap).debug('dropped', trap);
  });

  it('stops a start with a text for the operator when it cannot be read', () => {
    expect(() => createLogger({ filter: 'info,http=loud' })).toThrow('DYN_LOG: unknown level in "http=loud"');
  });
});

describe('a logger with fields', () => {
  it('says them on every line, those of the line last, and none that is unknown', () => {
    const { logger, records } = writtenJson();
    const log = logger.for('http').with({ request_id: 'r-1', trace_id: undefined });
    log.info('first');
    log.with({ model: 'm' }).info('second', { status: 'success', request_id: 'r-2' });
    expect(records()).toMatchObject([
      { message: 'first', request_id: 'r-1' },
      { message: 'second', model: 'm', status: 'success', request_id: 'r-2' },
    ]);
    expect(records()[0]).not.toHaveProperty('trace_id');
  });
});

describe('what a line says', () => {
  it.each([
    'authorization',
    'x-api-key',
    'API_KEY',
    'password',
    'client_secret',
    'set-cookie',
    'aws_secret_access_key',
    'token',
  ])('hides the field %s', (name) => {
    const { lines, logger } = written({ jsonl: true });
    logger.info('line', { [name]: 'hunter2', nested: { [name]: ['hunter2'] } });
    expect(lines[0]).not.toContain('hunter2');
  });

  it.each(['max_tokens', 'token_ids', 'input_tokens', 'model', 'key'])('shows the field %s', (name) => {
    const { logger, records } = writtenJson();
    logger.info('line', { [name]: 'shown' });
    expect(records()[0]).toMatchObject({ [name]: 'shown' });
  });

  it('hides keys and passwords inside of text', () => {
    const { logger, records } = writtenJson();
    logger.info('got Bearer abc.def-123', { url: 'nats://bob:hunter2@host:4222', text: 'key sk-0123456789abcdef!' });
    expect(records()[0]).toMatchObject({ message: 'got Bearer ***', url: 'nats://***@host:4222', text: 'key sk-***!' });
  });

  it('spells out an error with its causes, and shows the stack only of one that was not foreseen', () => {
    const { logger, records } = writtenJson();
    const cause = new TypeError('x is undefined');
    logger.error('a', { error: new ServeError('internal_error', 'Internal server error', { cause }) });
    logger.error('b', { error: cause });
    expect(records()[0]?.error).toEqual({
      type: 'ServeError',
      code: 'internal_error',
      message: 'Internal server error: x is undefined',
    });
    expect(records()[1]?.error).toMatchObject({
      type: 'TypeError',
      stack: expect.arrayContaining([expect.stringMatching(/^at /)]),
    });
  });

  it('takes any value and bounds what it writes', () => {
    const { lines, logger } = written({ jsonl: true });
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    const deepCause = new Error('0');
    deepCause.cause = deepCause;
    logger.info('line', {
      circle,
      deepCause,
      big: 2n ** 63n,
      bytes: new Uint8Array(1000),
      long: 'x'.repeat(100_000),
      many: Array.from({ length: 1000 }, (_, index) => index),
      wide: Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`k${index}`, index])),
      nothing: undefined,
      nan: Number.NaN,
      date: new Date(Number.NaN),
      url: new URL('http://a:b@c/'),
      symbol: Symbol('s'),
      run: function named() {},
    });
    const record = JSON.parse(lines[0] ?? '');
    expect(record).toMatchObject({
      big: '9223372036854775808',
      bytes: '[1000 bytes]',
      nan: 'NaN',
      url: 'http://***@c/',
    });
    expect(record).not.toHaveProperty('nothing');
    expect(lines[0]?.length).toBeLessThan(10_000);
  });
});

describe('loggers for tests', () => {
  it('captures lines of every level with their fields', () => {
    const { logger, lines } = captureLogger();
    logger.for('router').with({ a: 1 }).debug('line', { b: 2 });
    expect(lines).toEqual([{ level: 'debug', target: 'router', message: 'line', fields: { a: 1, b: 2 } }]);
  });

  it('is silent all the way down', () => {
    expect(() => silentLogger.for('a').with({ b: 1 }).error('c')).not.toThrow();
  });
});
