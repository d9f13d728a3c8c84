import type { EventScope } from '../planes/index.ts';

/** Component of workers. Stator's workers publish on the topics of their component. */
export interface ComponentScope {
  readonly namespace: string;
  readonly component: string;
}

/** Workers that publish on the same topics. */
export interface FeedScope extends ComponentScope {
  /**
   * Endpoint of Dynamo's workers, which publish on the topics of their endpoint.
   * @default none: the workers are Stator's
   */
  readonly endpoint?: string | undefined;
}

/** Returns the scope of the topics that the workers publish on. */
export function eventScopeOf({ namespace, component, endpoint }: FeedScope): EventScope {
  if (endpoint === undefined) return { kind: 'component', namespace, component };
  return { kind: 'endpoint', namespace, component, endpoint };
}

/** Returns a name of the scope that no other scope has. */
export function scopeName({ namespace, component, endpoint }: FeedScope): string {
  return JSON.stringify([namespace, component, endpoint]);
}
