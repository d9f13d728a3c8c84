import { assertNever } from '../../errors/index.ts';
import type { EventScope } from './types.ts';

/** One segment of a subject or key: every byte of its UTF-8 form but `[A-Za-z0-9_-]` as `%XX`. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[.!~*'()]/g, // what encodeURIComponent leaves alone beyond our set; all of them single bytes
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * The subject of `topic` in `scope`: `namespace.{ns}[.component.{c}[.endpoint.{e}]].{topic}`.
 *
 * @example subjectOf({ kind: 'component', namespace: 'dynamo', component: 'backend' }, 'kv-events')
 * // 'namespace.dynamo.component.backend.kv-events'
 */
export function subjectOf(scope: EventScope, topic: string): string {
  return `${subjectPrefixOf(scope)}.${encodeSegment(topic)}`;
}

/** What the subjects of `scope` begin with. */
export function subjectPrefixOf(scope: EventScope): string {
  const namespace = `namespace.${encodeSegment(scope.namespace)}`;
  switch (scope.kind) {
    case 'namespace':
      return namespace;
    case 'component':
      return `${namespace}.component.${encodeSegment(scope.component)}`;
    case 'endpoint':
      return `${namespace}.component.${encodeSegment(scope.component)}.endpoint.${encodeSegment(scope.endpoint)}`;
    default:
      return assertNever(scope);
  }
}
