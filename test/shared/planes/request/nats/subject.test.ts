import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readNatsTarget, subjectOfEndpoint } from '../../../../../shared/planes/request/nats/plane.ts';

describe('subjects of endpoints', () => {
  it('look as those of Dynamo', () => {
    expect(subjectOfEndpoint('694d98147d54be25/dynamo/backend/generate')).toBe(
      'dynamo_backend.generate-694d98147d54be25',
    );
  });

  it('read back as the path they were made of, whatever the names', () => {
    const name = fc.string({ minLength: 1, unit: 'grapheme' }).filter((text) => !text.includes('/'));
    fc.assert(
      fc.property(name, name, name, (ns, component, endpoint) => {
        const path = `2a/${ns}/${component}/${endpoint}`;
        const subject = subjectOfEndpoint(path);
        expect(subject).toMatch(/^[A-Za-z0-9_%-]+\.[A-Za-z0-9_%-]+$/);
        expect(readNatsTarget({ nats_tcp: subject })).toEqual({
          subject,
          poolKey: subject,
          instanceId: '2a',
          endpoint: path,
        });
      }),
    );
  });

  it.each(['2a/ns/component', '2a/ns/component/endpoint/more', 'XY/ns/component/endpoint', ''])(
    'refuse the path %s',
    (path) => {
      expect(() => subjectOfEndpoint(path)).toThrow('expected {instance}/{namespace}/{component}/{endpoint}');
    },
  );

  it.each([{ nats_tcp: 'nothing' }, { nats_tcp: 'a.b.c-2a' }, { tcp: '127.0.0.1:1/2a/a/b/c' }])(
    'refuse the transport %j',
    (transport) => {
      expect(() => readNatsTarget(transport)).toThrow(expect.objectContaining({ worker: 'CannotConnect' }));
    },
  );
});
