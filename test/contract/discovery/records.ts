import type {
  DiscoveryEvent,
  DiscoveryRecord,
  EndpointRecord,
  EventChannelRecord,
  ModelRecord,
  WatchListener,
} from '../../../shared/discovery/index.ts';

/** An endpoint record at `path` = `namespace/component/endpoint/instance`. */
export function endpointAt(path: string, address = '127.0.0.1:4000'): EndpointRecord {
  const [namespace = '', component = '', endpoint = '', instance_id = ''] = path.split('/');
  return { type: 'Endpoint', namespace, component, endpoint, instance_id, transport: { tcp: `${address}/${path}` } };
}

/** A model record at `path` = `namespace/component/endpoint/instance`. */
export function modelAt(path: string, suffix?: string): ModelRecord {
  const [namespace = '', component = '', endpoint = '', instance_id = ''] = path.split('/');
  return {
    type: 'Model',
    namespace,
    component,
    endpoint,
    instance_id,
    ...(suffix === undefined ? {} : { model_suffix: suffix }),
    card: {
      display_name: 'Tiny/Model-1.0',
      slug: 'tiny_model-1_0',
      files: { 'tokenizer.json': { path: '/models/tiny/tokenizer.json', checksum: 'sha256:00', size: 12 } },
      kv_cache_block_size: 16,
      model_type: ['Chat', 'Completions'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: [],
      runtime_config: { total_kv_blocks: 1024 },
    },
  };
}

export function channelOf(scope: EventChannelRecord['scope'], topic: string, id: string): EventChannelRecord {
  const transport = { kind: 'Zmq', config: { endpoint: 'tcp://127.0.0.1:5557' } } as const;
  return { type: 'EventChannel', scope, topic, instance_id: id, transport };
}

/** Keeps what a watch tells and the set that follows from it. */
export class Witness implements WatchListener {
  readonly events: DiscoveryEvent[] = [];
  readonly present = new Map<string, DiscoveryRecord>();
  readonly outages: string[] = [];

  event(event: DiscoveryEvent): void {
    this.events.push(event);
    if (event.kind === 'added') this.present.set(event.key, event.record);
    else this.present.delete(event.key);
  }

  failing(error: Error): void {
    this.outages.push(`failing: ${error.message}`);
  }

  recovered(): void {
    this.outages.push('recovered');
  }

  get keys(): string[] {
    return [...this.present.keys()].sort();
  }
}
