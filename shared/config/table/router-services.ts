import { choice, port, text, urls } from '../builders.ts';

/** Rows of "Router modes", one part of them: the services of `stator router`. */
export const routerServicesRows = {
  service: choice({
    flags: ['--service'],
    env: ['STATOR_ROUTER_SERVICE'],
    values: ['router', 'indexer', 'slots', 'selection'],
    default: 'router',
    usedBy: ['router'],
    source: 'Stator',
    built: true,
    about: 'What runs: the router on the request plane, or the indexer, slot tracker or selection service on HTTP.',
  }),
  servicePort: port({
    flags: ['--service-port'],
    env: ['STATOR_ROUTER_SERVICE_PORT'],
    min: 0,
    note: '0 = any free',
    defaultText: '8090 indexer, 8091 slots, 8092 selection',
    usedBy: ['router'],
    source: 'Stator',
    built: true,
    about: 'Port of an HTTP service.',
  }),
  serviceHost: text({
    flags: ['--service-host'],
    env: ['STATOR_ROUTER_SERVICE_HOST'],
    allowed: 'IP or host name',
    default: '127.0.0.1',
    usedBy: ['router'],
    source: 'Stator',
    built: true,
    about: 'Listen address of an HTTP service; beyond loopback it wants STATOR_PLANE_TOKEN.',
  }),
  serviceSyncPort: port({
    flags: ['--service-sync-port'],
    env: ['STATOR_ROUTER_SERVICE_SYNC_PORT'],
    min: 0,
    note: '0 = any free',
    defaultText: 'unset = tells nobody',
    usedBy: ['router'],
    source: 'Stator',
    built: true,
    about: 'Port where the slot tracker and the selection service tell their replicas what they book.',
  }),
  servicePeers: urls({
    flags: ['--service-peers'],
    env: ['STATOR_ROUTER_SERVICE_PEERS'],
    schemes: ['http', 'https', 'tcp'],
    default: [],
    usedBy: ['router'],
    source: 'Stator',
    built: true,
    about:
      'Replicas known from the start: http:// of indexers, the first dump is taken over; tcp:// sync ports of others.',
  }),
};
