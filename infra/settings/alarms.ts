import * as z from 'zod';
import { Arn } from './names.ts';

/** Alarms, and the topics that hear them. */
export const Alarms = z
  .strictObject({
    /** Topic that alarms go to. @default none: they are seen in the console */
    topicArn: Arn.optional(),
    /** Topic of the one alarm that wakes someone: customers are affected. @default `topicArn` */
    pageTopicArn: Arn.optional(),
    /**
     * Budget of a month, US$. The topic gets a message at 50, 80 and 100 %, and about days that are unlike others.
     * @default none
     */
    budgetUsd: z.number().positive().max(1e9).optional(),
    /** Time to the first token that 99 of 100 requests stay below, in seconds. */
    ttftP99Secs: z.number().positive().default(10),
  })
  .superRefine(({ topicArn, budgetUsd }, context) => {
    if (budgetUsd === undefined || topicArn !== undefined) return;
    context.addIssue({
      code: 'custom',
      path: ['budgetUsd'],
      message: 'needs alarms.topicArn, the topic that gets the messages',
    });
  })
  .prefault({});
