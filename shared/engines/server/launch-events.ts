import type { LaunchPorts } from './dialect.ts';

/** What decides whether and how a started engine publishes KV events. */
export interface LaunchEvents {
  /** KV events as the user configured them; undefined = as the sidecar wants them. */
  readonly kvEventsConfig?: Readonly<Record<string, unknown>> | undefined;
  /** Whether KV events are wanted: not of decode workers. */
  readonly publishesKvEvents: boolean;
  readonly enablePrefixCaching: boolean;
}

/**
 * The engine's KV event settings, with `more` that only it has; undefined = none. An address without a wildcard is one that the engine connects to: its
 * prompts' tokens do not leave the machine.
 */
export function launchEvents(
  { kvEventsConfig, publishesKvEvents, enablePrefixCaching }: LaunchEvents,
  ports: LaunchPorts,
  more: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> | undefined {
  if (!publishesKvEvents || !enablePrefixCaching) return undefined;
  return (
    kvEventsConfig ?? {
      ...more,
      publisher: 'zmq',
      topic: 'kv-events',
      endpoint: `tcp://127.0.0.1:${ports.events}`,
      replay_endpoint: `tcp://127.0.0.1:${ports.replay}`,
    }
  );
}

/**
 * Named values as the arguments of an engine written in Python: `true` is the bare flag, `false` its `--no-` form, objects
 * are JSON, lists several values; undefined is left out. `_` in names may stand for `-`.
 */
export function argumentsOf(named: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(named).flatMap(([name, value]) => {
    const flag = name.replaceAll('_', '-');
    if (value === undefined || value === null) return [];
    if (typeof value === 'boolean') return [value ? `--${flag}` : `--no-${flag}`];
    if (Array.isArray(value)) return [`--${flag}`, ...value.map(String)];
    return [`--${flag}`, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
}
