import { readdirSync, readFileSync } from 'node:fs';
import { type DescField, type DescFile, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import protobuf from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { file_etcd } from '../../../shared/grpc/messages/generated/etcd_pb.js';
import { file_external_processor } from '../../../shared/grpc/messages/generated/external_processor_pb.js';
import { file_grpc_service } from '../../../shared/grpc/messages/generated/grpc_service_pb.js';
import { file_health } from '../../../shared/grpc/messages/generated/health_pb.js';
import { file_model_config } from '../../../shared/grpc/messages/generated/model_config_pb.js';
import { file_reflection } from '../../../shared/grpc/messages/generated/reflection_pb.js';
import { file_router } from '../../../shared/grpc/messages/generated/router_pb.js';

const { EXPLICIT } = FeatureSet_FieldPresence;

const GENERATED: Readonly<Record<string, DescFile>> = {
  'etcd.proto': file_etcd,
  'external_processor.proto': file_external_processor,
  'grpc_service.proto': file_grpc_service,
  'health.proto': file_health,
  'model_config.proto': file_model_config,
  'reflection.proto': file_reflection,
  'router.proto': file_router,
};

/** Lines that say all of a file that is on the wire. */
function parsed(file: string): readonly string[] {
  const { root } = protobuf.parse(readFileSync(`proto/${file}`, 'utf8'), { keepCase: true });
  return [...parsedNamespace(root, '')].sort();
}

function* parsedNamespace(namespace: protobuf.NamespaceBase, prefix: string): Generator<string> {
  for (const each of namespace.nestedArray) {
    const name = prefix === '' ? each.name : `${prefix}.${each.name}`;
    if (each instanceof protobuf.Enum) {
      for (const [value, number] of Object.entries(each.values)) yield `${name} ${value} = ${number}`;
    } else if (each instanceof protobuf.Service) {
      for (const method of each.methodsArray) {
        const [asks, answers] = [method.requestStream, method.responseStream].map((is) => (is ? 'stream ' : ''));
        yield `${name}.${method.name}(${asks}${last(method.requestType)}) ${answers}${last(method.responseType)}`;
      }
    } else {
      if (each instanceof protobuf.Type) for (const field of each.fieldsArray) yield `${name} ${parsedField(field)}`;
      if (each instanceof protobuf.Namespace) yield* parsedNamespace(each, name);
    }
  }
}

function parsedField(field: protobuf.Field): string {
  const { name, id, type, partOf } = field;
  const key = field instanceof protobuf.MapField ? `map ${field.keyType} ` : field.repeated ? 'repeated ' : '';
  return `${name} = ${id}: ${key}${last(type)}${partOf === null ? '' : ` of ${partOf.name}`}`;
}

/** What the generated code says of the same. */
function generated(file: DescFile): readonly string[] {
  const enums = [...file.enums, ...file.messages.flatMap(nestedEnums)];
  return [
    ...enums.flatMap(({ typeName, values }) => values.map(({ name, number }) => `${typeName} ${name} = ${number}`)),
    ...file.messages.flatMap(messageLines),
    ...file.services.flatMap(({ typeName, methods }) =>
      methods.map(({ name, methodKind, input, output }) => {
        const asks = methodKind === 'client_streaming' || methodKind === 'bidi_streaming' ? 'stream ' : '';
        const answers = methodKind === 'server_streaming' || methodKind === 'bidi_streaming' ? 'stream ' : '';
        return `${typeName}.${name}(${asks}${last(input.typeName)}) ${answers}${last(output.typeName)}`;
      }),
    ),
  ].sort();
}

function nestedEnums({ nestedEnums: own, nestedMessages }: DescMessage): DescMessage['nestedEnums'] {
  return [...own, ...nestedMessages.flatMap(nestedEnums)];
}

function messageLines({ typeName, fields, nestedMessages }: DescMessage): readonly string[] {
  const own = fields.map((field) => `${typeName} ${field.name} = ${field.number}: ${typeOf(field)}${oneofOf(field)}`);
  return [...own, ...nestedMessages.flatMap(messageLines)];
}

/** An optional field is the only one of a oneof that is named after it. */
function oneofOf({ oneof, name, presence, fieldKind }: DescField): string {
  if (oneof !== undefined) return ` of ${oneof.name}`;
  return presence === EXPLICIT && fieldKind !== 'message' ? ` of _${name}` : '';
}

function typeOf(field: DescField): string {
  switch (field.fieldKind) {
    case 'scalar':
      return scalar(field.scalar);
    case 'enum':
      return last(field.enum.typeName);
    case 'message':
      return last(field.message.typeName);
    case 'map':
      return `map ${scalar(field.mapKey)} ${elementOf(field, field.mapKind)}`;
    case 'list':
      return `repeated ${elementOf(field, field.listKind)}`;
  }
}

function elementOf(field: DescField & { fieldKind: 'map' | 'list' }, kind: 'scalar' | 'enum' | 'message'): string {
  if (kind === 'scalar') return scalar(field.scalar!); // as its kind says, here and below
  return last(kind === 'enum' ? field.enum!.typeName : field.message!.typeName);
}

function scalar(type: ScalarType): string {
  return ScalarType[type].toLowerCase();
}

function last(typeName: string): string {
  return typeName.slice(typeName.lastIndexOf('.') + 1);
}

describe('the messages of gRPC', () => {
  it.each(readdirSync('proto').filter((name) => name.endsWith('.proto')))(
    'are generated from %s as it stands; npm run proto makes them anew',
    (name) => {
      const lines = generated(GENERATED[name]!);
      expect(lines).toEqual(parsed(name));
      expect(lines.length).toBeGreaterThan(5);
    },
  );
});
