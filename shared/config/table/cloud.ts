import { CLOUD } from '../processes.ts';
import { choices, int, text, url, urls } from '../row.ts';

/** Rows of "Cloud". */
export const cloudRows = {
  discoveryTable: text({
    env: ['STATOR_DISCOVERY_TABLE'],
    usedBy: CLOUD,
    source: 'Stator',
    about: 'Discovery table; set selects dynamodb.',
  }),
  stateTable: text({
    env: ['STATOR_STATE_TABLE'],
    usedBy: ['frontend'],
    source: 'Stator',
    about: 'Router-state table: leases of routers, pointers to snapshots of the block index.',
  }),
  responsesTable: text({
    env: ['STATOR_RESPONSES_TABLE'],
    usedBy: ['frontend', 'function'],
    source: 'Stator',
    about: 'Table of stored responses.',
  }),
  routerUrl: urls({
    env: ['STATOR_ROUTER_URL'],
    schemes: ['tcp', 'grpc'],
    defaultText: 'unset = from discovery',
    usedBy: ['frontend', 'function'],
    source: 'Stator',
    about: 'Resident routers that answer Choose.',
  }),
  dynamodbEndpoint: url({
    env: ['STATOR_DYNAMODB_ENDPOINT'],
    schemes: ['http', 'https'],
    defaultText: 'unset = service default',
    usedBy: CLOUD,
    source: 'Stator',
    about: 'DynamoDB endpoint, for emulators and private endpoints.',
  }),
  deadlineMarginSecs: int({
    env: ['STATOR_DEADLINE_MARGIN_SECS'],
    min: 1,
    max: 60,
    unit: 's',
    default: 10,
    usedBy: ['function'],
    source: 'Stator',
    about: "Work ends this long before the function's limit.",
  }),
  awsRegion: text({
    env: ['AWS_REGION'],
    defaultText: 'set by the platform',
    usedBy: CLOUD,
    source: 'AWS SDK',
    about: 'Region of tables, queues and buckets.',
  }),
  roles: choices({
    flags: ['--roles'],
    env: ['STATOR_ROLES'],
    values: ['http', 'router'],
    refused: { grpc: 'grpc is not built yet', worker: 'worker needs a process of its own: stator worker' },
    defaultText: 'by command',
    usedBy: ['frontend'],
    source: 'Stator',
    about: 'Roles of one container.',
  }),
};
