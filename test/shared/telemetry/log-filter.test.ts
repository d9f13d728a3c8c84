import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LOG_LEVELS, resolveConfig } from '../../../shared/config/index.ts';
import { parseLogFilter } from '../../../shared/telemetry/log/lines.ts';

describe('parseLogFilter', () => {
  it.each([
    ['', 'pipeline', 'info'],
    ['debug', 'pipeline', 'debug'],
    ['info,pipeline=debug', 'pipeline', 'debug'],
    ['info,pipeline=debug', 'router', 'info'],
    ['pipeline=debug', 'router', 'info'],
    ['warn,planes=error,planes.tcp=trace', 'planes.tcp', 'trace'],
    ['warn,planes.tcp=trace,planes=error', 'planes.nats', 'error'],
    ['info,planes=debug', 'planes::tcp', 'debug'],
    ['info,planes=debug', 'planes/tcp', 'debug'],
    ['info,plane=debug', 'planes', 'info'],
    ['off', 'pipeline', 'off'],
    ['off,pipeline=warn', 'pipeline', 'warn'],
    ['info,access=off', 'access', 'off'],
    ['info,pipeline', 'pipeline', 'trace'],
    [' Info , Router=DEBUG ', 'Router', 'debug'],
    ['debug,error', 'pipeline', 'error'],
  ])('reads %j so that %s is logged at %s', (text, target, level) => {
    expect(parseLogFilter(text)(target)).toBe(level);
    expect(() => resolveConfig('frontend', [], { DYN_LOG: text })).not.toThrow();
  });

  it.each(['info,router=loud', 'router=', '=debug', 'info,[span]=debug', 'a b=info', 'info,a b', 'loud'])(
    'refuses %j with a text that says what is allowed',
    (text) => {
      expect(() => parseLogFilter(text)).toThrow(/^DYN_LOG: .*(allowed are off, error|target=level)/);
      expect(() => resolveConfig('frontend', [], { DYN_LOG: text })).toThrow(/DYN_LOG .*target=level/);
    },
  );

  it('lets the longest matching target decide, whatever the order', () => {
    const target = fc
      .array(fc.constantFrom('a', 'b', 'ab'), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join('.'));
    const directive = fc.tuple(target, fc.constantFrom(...LOG_LEVELS));
    fc.assert(
      fc.property(
        fc.uniqueArray(directive, { selector: ([name]) => name, maxLength: 6 }),
        target,
        (directives, wanted) => {
          let best: (typeof directives)[number] | undefined;
          for (const each of directives) {
            const isParent = wanted === each[0] || wanted.startsWith(`${each[0]}.`);
            if (isParent && each[0].length > (best?.[0].length ?? 0)) best = each;
          }
          const text = ['warn', ...directives.map(([name, level]) => `${name}=${level}`)].join(',');
          expect(parseLogFilter(text)(wanted)).toBe(best?.[1] ?? 'warn');
        },
      ),
    );
  });
});
