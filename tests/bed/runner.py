"""Beam's local streaming runner for jobs without an end: it forgets what is over.

Beam's ``BundleBasedDirectRunner`` keeps two things for ever (seen in 2.77; a process that grew so is in
https://github.com/apache/beam/issues/18642), and both make it slower, too, the longer it runs:

* The state of every window. In Beam's model it is garbage once the watermark has passed the window's end by the
  allowed lateness, but here its collection is a to-do (`GeneralTriggerDriver` in ``trigger.py``). Where panes
  accumulate, the default of this library's estimates, all that a window was made of stays with it. The state of all
  windows is copied for each bundle.
* An empty bundle for each pull from Pub/Sub. They are among what the source has still to do, which is gone through each
  time that the watermark is worked out, and only bundles with elements are taken out again.
"""

from typing import Any

from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner, _DirectReadFromPubSub
from apache_beam.runners.direct.transform_evaluator import (
    TransformEvaluatorRegistry,
    _PubSubReadEvaluator,
    _StreamingGroupAlsoByWindow,
    _StreamingGroupAlsoByWindowEvaluator,
)
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, MergeableStateAdapter
from apache_beam.transforms.window import NonMergingWindowFn
from typing_extensions import override

_ELEMENTS, _HOLD = "elements", "watermark"  # as Beam's trigger driver names what it keeps for a window
_EACH_LATE_ONE_ALONE = AfterWatermark(late=AfterCount(1))


class LocalRunner(BundleBasedDirectRunner):
    """``BundleBasedDirectRunner``, but windows that are over are forgotten, and so are pulls from Pub/Sub.

    A window of a key is over if nothing waits in it (no timer, no held watermark), and

    * the watermark has passed its end by more than the allowed lateness, so that its records are dropped from then on;
      or
    * the watermark has passed its end, and only late records can still come, which go out one by one
      (``AfterWatermark(late=AfterCount(1))``, DISCARDING): the count of late records. They go out in the same way
      from a window that is not known, but their panes have the index 0 instead of the next number.

    Windows are forgotten when their key is seen the next time. Windows that merge (sessions) are left to Beam.
    """

    @override
    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        registry = TransformEvaluatorRegistry
        before = registry._test_evaluators_overrides
        # the one way in that Beam has; the registry, which is made meanwhile, keeps a copy
        registry._test_evaluators_overrides = {**before, **_EVALUATORS}
        try:
            return super().run_pipeline(pipeline, options)  # type: ignore[no-untyped-call]
        finally:
            registry._test_evaluators_overrides = before


class _Read(_PubSubReadEvaluator):
    @override
    def finish_bundle(self) -> Any:
        result = super().finish_bundle()
        manager = self._evaluation_context._watermark_manager
        manager.get_watermarks(self._applied_ptransform).remove_pending(self._input_committed_bundle)
        return result


class _GroupAlsoByWindow(_StreamingGroupAlsoByWindowEvaluator):
    @override
    def process_timer_wrapper(self, timer_firing: Any) -> None:
        # Beam may fire a timer again before the first firing has been worked on. By now its window may be forgotten,
        # and another one may have its number.
        timers = self._step_context.get_keyed_state(timer_firing.encoded_key).timers
        which = (timer_firing.name, timer_firing.time_domain, timer_firing.dynamic_timer_tag)
        if timers.get(timer_firing.window, {}).get(which) == timer_firing.timestamp:
            super().process_timer_wrapper(timer_firing)  # type: ignore[no-untyped-call]

    @override
    def finish_bundle(self) -> Any:
        result = super().finish_bundle()  # type: ignore[no-untyped-call]
        transform: Any = self._applied_ptransform.transform
        if isinstance(transform.windowing.windowfn, NonMergingWindowFn):
            for state in self._step_context.partial_keyed_state.values():
                self._forget(state, transform.windowing)
        return result

    def _forget(self, state: Any, windowing: Any) -> None:
        """Drop a key's windows that are over."""
        watermark = self._execution_context.watermarks.input_watermark
        one_by_one = (
            windowing.accumulation_mode == AccumulationMode.DISCARDING and windowing.triggerfn == _EACH_LATE_ONE_ALONE
        )
        windows = state.get_global_state(MergeableStateAdapter.WINDOW_IDS, {})
        for window, numbers in list(windows.items()):
            kept = [state.state[number] for number in numbers if number in state.state]
            if any(number in state.timers for number in numbers) or any(of.get(_HOLD) for of in kept):
                continue
            is_expired = watermark > window.end + windowing.allowed_lateness
            has_gone_out = watermark >= window.end and not any(of.get(_ELEMENTS) for of in kept)
            if is_expired or (one_by_one and has_gone_out):
                del windows[window]
                for number in numbers:
                    state.state.pop(number, None)


_EVALUATORS: dict[Any, Any] = {
    _DirectReadFromPubSub: _Read,
    _StreamingGroupAlsoByWindow: _GroupAlsoByWindow,
}
