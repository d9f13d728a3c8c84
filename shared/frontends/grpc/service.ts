import type { Grant } from '../../access/index.ts';
import {
  decodeMessage,
  encodeMessage,
  file_grpc_service,
  file_health,
  framed,
  type GrpcCall,
  type GrpcMethod,
  HealthService,
  ModelConfigRequestSchema,
  ModelMetadataRequestSchema,
  ModelReadyRequestSchema,
  ModelReadyResponseSchema,
  ModelStatisticsRequestSchema,
  ModelStatisticsResponseSchema,
  openUnary,
  RepositoryIndexRequestSchema,
  RepositoryIndexResponseSchema,
  receiveOne,
  reflectionMethods,
  ServerLiveResponseSchema,
  ServerMetadataResponseSchema,
  ServerReadyResponseSchema,
} from '../../grpc/index.ts';
import type { ServedModel } from '../../pipeline/index.ts';
import { decodeModelInferRequest } from '../../protocol/index.ts';
import { modelsShown, requireAllowed, requireService } from '../inference/dialect.ts';
import { admit, type KserveDeps } from './grpc-exchange.ts';
import { IdleStreams, infer, serveStreamInfer } from './infer.ts';
import { configOf, InferStatistics, isForKserve, metadataOf } from './models.ts';
import { modelNotFound, UnaryResponses } from './responses.ts';

/** Name of the service of KServe v2, as in Triton. */
export const KSERVE = 'inference.GRPCInferenceService';

/** The services of a gRPC server of models. */
export interface KserveService {
  readonly methods: readonly GrpcMethod[];
  /** Updates the readiness of models; the owner calls it when models change. */
  readonly health: HealthService;
  /** Sends NOT_SERVING to clients that watch, and ends streams without a request in flight. */
  shutDown(): void;
}

/** Creates the services: KServe v2, health and reflection. */
export function createKserveService(deps: KserveDeps): KserveService {
  const isReady = (): boolean =>
    deps.lifecycle.isTakingRequests && deps.pipeline.requestable.list().some(({ readiness }) => readiness.isReady);
  const isModelReady = (name: string): boolean | undefined => deps.pipeline.requestable.find(name)?.readiness.isReady;
  const health = new HealthService((service) =>
    service === '' || service === KSERVE ? isReady() : isModelReady(service),
  );
  const live = encodeMessage(ServerLiveResponseSchema, { live: true });
  const [ready, notReady] = [true, false].map((each) => encodeMessage(ServerReadyResponseSchema, { ready: each }));
  const statistics = new InferStatistics();
  const streams = { deps, statistics, idle: new IdleStreams() };
  return {
    health,
    shutDown: () => {
      health.shutDown();
      streams.idle.shutDown();
    },
    methods: [
      openUnary(path('ServerLive'), () => live),
      openUnary(path('ServerReady'), () => (isReady() ? ready! : notReady!)),
      openUnary(path('ServerMetadata'), () =>
        encodeMessage(ServerMetadataResponseSchema, {
          name: 'dynamo',
          version: deps.version,
          extensions: ['model_configuration'],
        }),
      ),
      withKey(deps, 'ModelReady', (message, grant) => {
        const { name } = decodeMessage(ModelReadyRequestSchema, message);
        const model = deps.pipeline.requestable.find(name);
        // A model that the key may not use counts as unknown.
        const isShown = model !== undefined && grant.allowsModel(name, model.primaryName);
        return encodeMessage(ModelReadyResponseSchema, { ready: isShown && model.readiness.isReady });
      }),
      withKey(deps, 'ModelMetadata', (message, grant) => {
        const { name } = decodeMessage(ModelMetadataRequestSchema, message);
        return metadataOf(name, found(deps, grant, name, isForKserve).card);
      }),
      withKey(deps, 'ModelConfig', (message, grant) => {
        const { name } = decodeMessage(ModelConfigRequestSchema, message);
        return configOf(name, found(deps, grant, name, isForKserve).card);
      }),
      withKey(deps, 'ModelStatistics', (message, grant) => {
        const { name } = decodeMessage(ModelStatisticsRequestSchema, message);
        if (name !== '') found(deps, grant, name);
        const names = name === '' ? modelsShown(deps, { grant }).map((model) => model.primaryName) : [name];
        return encodeMessage(ModelStatisticsResponseSchema, statistics.of([...new Set(names)]));
      }),
      withKey(deps, 'RepositoryIndex', (message, grant) => {
        const { ready: isReadyAlone } = decodeMessage(RepositoryIndexRequestSchema, message);
        const models = modelsShown(deps, { grant }).filter(({ readiness }) => readiness.isReady || !isReadyAlone);
        return encodeMessage(RepositoryIndexResponseSchema, { models: models.map(indexEntry) });
      }),
      method(deps, 'ModelInfer', 'generate', (call, message, grant) => {
        const request = decodeModelInferRequest(message);
        infer({ deps, statistics, call, grant, request, responses: new UnaryResponses(call) });
      }),
      { path: path('ModelStreamInfer'), serve: (call) => serveStreamInfer(streams, call) },
      ...health.methods,
      ...reflectionMethods([file_grpc_service, file_health]),
    ],
  };
}

function path(method: string): string {
  return `/${KSERVE}/${method}`;
}

/** Returns a method about models, for clients that have a key. */
function withKey(deps: KserveDeps, name: string, answer: (message: Buffer, grant: Grant) => Uint8Array): GrpcMethod {
  return method(deps, name, 'key', (call, message, grant) => {
    call.write(framed(answer(message, grant)));
    call.end();
  });
}

/** Returns a method of one message, for clients that may call it. */
function method(
  deps: KserveDeps,
  name: string,
  need: 'generate' | 'key',
  serve: (call: GrpcCall, message: Buffer, grant: Grant) => void,
): GrpcMethod {
  return {
    path: path(name),
    serve: async (call) => {
      const grant = await admit(deps, call, need);
      const held = deps.lifecycle.hold(call);
      if (held !== undefined) await held;
      if (call.isOver) return; // the client has left meanwhile
      receiveOne(call, (message) => serve(call, message, grant));
    },
  };
}

/**
 * Returns a model for a client. @throws ServeError `insufficient_permissions`, `service_unavailable`; GrpcStatus if
 * there is no such model
 */
function found(
  deps: KserveDeps,
  grant: Grant,
  name: string,
  serves: (model: ServedModel) => boolean = () => true,
): ServedModel {
  const model = deps.pipeline.requestable.find(name);
  requireAllowed({ grant }, name, model?.primaryName);
  if (model !== undefined && serves(model)) return model;
  requireService(deps);
  throw modelNotFound(name, modelsShown(deps, { grant }), deps.pipeline.models.refused?.());
}

function indexEntry({ name, readiness }: ServedModel) {
  const { isReady, reason } = readiness;
  return { name, version: '1', state: isReady ? 'READY' : 'UNAVAILABLE', reason: isReady ? '' : (reason ?? '') };
}
