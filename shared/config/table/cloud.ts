import { cloud, cloudEdges, frontend, rowsFor } from '../row.ts';

// Processes that report to planners, and the function that reports to one what functions hold.
const tellers = rowsFor('frontend', 'worker', 'host', 'planner');

/** Rows of "Cloud". */
export const cloudRows = {
  discoveryTable: cloud.text({
    names: 'STATOR_DISCOVERY_TABLE',
    about: 'Discovery table; set selects dynamodb.',
  }),
  stateTable: frontend.text({
    names: 'STATOR_STATE_TABLE',
    about: 'Router-state table: leases of routers, pointers to snapshots of the block index.',
  }),
  responsesTable: cloudEdges.text({
    names: 'STATOR_RESPONSES_TABLE',
    about: 'Table of stored responses.',
  }),
  planeTokenSecret: cloud.text({
    names: 'STATOR_PLANE_TOKEN_SECRET',
    note: 'name or ARN',
    about: 'Secret of Secrets Manager whose text is STATOR_PLANE_TOKEN.',
  }),
  idSecretSecret: cloudEdges.text({
    names: 'STATOR_ID_SECRET_SECRET',
    note: 'name or ARN',
    about: 'Secret of Secrets Manager whose text is STATOR_ID_SECRET.',
  }),
  natsSecret: cloud.text({
    names: 'STATOR_NATS_SECRET',
    note: 'name or ARN',
    about: 'Secret of Secrets Manager with username and password at NATS as JSON, or a token.',
  }),
  secretsTable: cloudEdges.text({
    names: 'STATOR_SECRETS_TABLE',
    about:
      'Table in which a container stores its plane token and its secret of request ids, and from which functions read them.',
  }),
  secretCacheSecs: cloud.int({
    names: 'STATOR_SECRET_CACHE_SECS',
    range: { min: 10, max: 86400, unit: 's' },
    default: 300,
    about:
      'Age at which secrets are read again; if one has changed, a function starts anew, and a container drains and ends.',
  }),
  routerUrl: cloudEdges.urls({
    names: 'STATOR_ROUTER_URL',
    schemes: ['tcp', 'grpc'],
    defaultText: 'unset = from discovery',
    about: 'Resident routers that answer Choose.',
  }),
  dynamodbEndpoint: cloud.url({
    names: 'STATOR_DYNAMODB_ENDPOINT',
    schemes: ['http', 'https'],
    defaultText: 'unset = service default',
    about: 'DynamoDB endpoint, for emulators and private endpoints.',
  }),
  plannerQueueUrl: tellers.url({
    names: 'STATOR_PLANNER_QUEUE_URL',
    schemes: ['http', 'https'],
    defaultText: 'unset = planners read the event plane',
    about:
      'FIFO queue to the planners: a frontend reports the fleet that it answers for and its held requests, a worker reports itself, a host reports its instance, and a deployment what its functions hold.',
  }),
  sqsEndpoint: tellers.url({
    names: 'STATOR_SQS_ENDPOINT',
    schemes: ['http', 'https'],
    defaultText: 'unset = service default',
    about: 'SQS endpoint, for emulators and private endpoints.',
  }),
  deadlineMarginSecs: rowsFor('function').int({
    names: 'STATOR_DEADLINE_MARGIN_SECS',
    range: { min: 1, max: 60, unit: 's' },
    default: 10,
    about: "Time before the function's limit at which work ends.",
  }),
  awsRegion: rowsFor(...cloud.usedBy, 'host').text({
    names: 'AWS_REGION',
    defaultText: 'set by the platform',
    source: 'AWS SDK',
    about: 'Region of tables, queues and buckets.',
  }),
  roles: frontend.choices({
    names: '--roles STATOR_ROLES',
    values: ['http', 'grpc', 'router'],
    refused: { worker: 'worker needs a process of its own: stator worker' },
    defaultText: 'by command',
    about: 'Roles of one container.',
  }),
};
