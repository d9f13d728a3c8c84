import { FLEET, LASTING_FLEET, PLANE_SERVERS } from '../processes.ts';
import { bool, brokers, choice, text } from '../row.ts';

/** Rows of "Event plane". */
export const eventPlaneRows = {
  eventPlane: choice({
    flags: ['--event-plane'],
    env: ['DYN_EVENT_PLANE'],
    values: ['zmq', 'nats'],
    decide: (facts) => (facts.read('discoveryBackend') === 'dynamodb' ? 'nats' : 'zmq'),
    defaultText: 'zmq for file and mem; nats for dynamodb',
    usedBy: FLEET,
    source: 'Dynamo; 1.6.1: zmq always',
    about: 'Carries KV events and load.',
  }),
  eventPlaneCodec: choice({
    env: ['DYN_EVENT_PLANE_CODEC'],
    values: ['msgpack'],
    refused: { json: 'not built yet' },
    defaultText: 'msgpack',
    usedBy: FLEET,
    source: '1.6.1',
    about: 'Codec of event payloads.',
  }),
  eventPlaneHost: text({
    env: ['DYN_EVENT_PLANE_HOST'],
    allowed: 'IP',
    defaultText: 'auto',
    usedBy: PLANE_SERVERS,
    source: '1.6.1',
    about: 'Address that a ZMQ publisher advertises.',
  }),
  zmqBrokerUrl: brokers({
    env: ['DYN_ZMQ_BROKER_URL'],
    usedBy: LASTING_FLEET,
    source: '1.6.1',
    about: 'ZMQ broker addresses.',
  }),
  zmqBrokerEnabled: bool({
    env: ['DYN_ZMQ_BROKER_ENABLED'],
    default: false,
    usedBy: LASTING_FLEET,
    source: '1.6.1',
    about: 'Looks the ZMQ broker up in discovery.',
  }),
};
