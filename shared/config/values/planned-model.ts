import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** A model whose workers a planner starts. */
export interface PlannedModel {
  /** Namespace of its workers. @default that of the process */
  readonly namespace?: string | undefined;
  /** Name that its workers register. */
  readonly model: string;
}

/** `NAMESPACE#MODEL`, as planners name the group of a model, or only the model. */
export function plannedModelType(): ValueType<PlannedModel> {
  return oneText<PlannedModel>({
    name: 'model',
    allowed: '[NAMESPACE#]MODEL',
    parse: (text) => {
      const at = text.indexOf('#');
      const [namespace, model] = at < 0 ? [undefined, text] : [text.slice(0, at), text.slice(at + 1)];
      if (namespace === '') return refuse('without a namespace before #');
      return model === '' ? refuse('without a model after #') : accept({ namespace, model });
    },
    show: ({ namespace, model }) => (namespace === undefined ? model : `${namespace}#${model}`),
  });
}
