// SPDX-License-Identifier: Apache-2.0
// Streams and events. All work is done when the call that enqueues it returns, so a stream is only a name.
#include "driver_graph.h"

using namespace ptxemu;

namespace {

void create_stream(CUstream* out, unsigned flags, int priority) {
    const Current call;
    require(out, "phStream");
    if ((flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
        fail(CUDA_ERROR_INVALID_VALUE, "unknown stream flags " + hex(flags));
    }
    auto stream = std::make_unique<Stream>();
    stream->context = call.context.get();
    stream->flags = flags;
    stream->priority = priority;
    *out = reinterpret_cast<CUstream>(stream.get());
    call.s.streams.emplace(stream.get(), std::move(stream));
}

void check_not_captured(State& s, const Event& event) {
    for (const auto& capture : s.captures) {
        if (event.capture_id != capture->id) continue;
        capture->invalid = true;
        fail(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a stream that is being captured");
    }
}

void record(CUevent handle, CUstream stream) {
    Current call;
    check_stream(call.s, stream);
    Event& event = find_event(call.s, handle);
    if (event.context != call.context.get()) fail(CUDA_ERROR_INVALID_HANDLE, "the event belongs to another context");
    if (capture_record(call, event, stream)) return;
    event.recorded = true;
    event.time = std::chrono::steady_clock::now();
}

}   // namespace

PTXEMU_API CUresult CUDAAPI cuStreamCreate(CUstream* out, unsigned int flags) {
    return guarded("cuStreamCreate", [&] { create_stream(out, flags, 0); });
}

PTXEMU_API CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
    return guarded("cuStreamCreateWithPriority", [&] { create_stream(out, flags, priority); });
}

PTXEMU_API CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle) {
    return guarded("cuStreamDestroy", [&] {
        const Current call;
        if (call.s.streams.erase(handle) == 0) fail(CUDA_ERROR_INVALID_HANDLE, "no such stream");
        for (const auto& capture : call.s.captures) {   // what it had captured stays, unjoined
            if (capture->tails.count(handle) != 0) capture->invalid = true;
        }
        std::erase_if(call.s.captures, [&](const auto& capture) { return capture->origin == handle; });
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
    return guarded("cuStreamSynchronize", [&] {
        const Current call;
        forbid_in_capture(call.s, handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamQuery(CUstream handle) {
    return guarded("cuStreamQuery", [&] {
        const Current call;
        forbid_in_capture(call.s, handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
    return guarded("cuStreamWaitEvent", [&] {
        Current call;
        check_stream(call.s, handle);
        const Event& waited = find_event(call.s, event);
        if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) {
            fail(CUDA_ERROR_INVALID_VALUE, "unknown flags " + hex(flags));
        }
        capture_wait(call, waited, handle);
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int* flags) {
    return guarded("cuStreamGetFlags", [&] {
        const Current call;
        require(flags, "flags");
        check_stream(call.s, handle);
        const auto found = call.s.streams.find(handle);
        *flags = found == call.s.streams.end() ? 0u : found->second->flags;
    });
}

PTXEMU_API CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
    return guarded("cuStreamGetPriority", [&] {
        const Current call;
        require(priority, "priority");
        check_stream(call.s, handle);
        *priority = 0;
    });
}

PTXEMU_API CUresult CUDAAPI cuEventCreate(CUevent* out, unsigned int flags) {
    return guarded("cuEventCreate", [&] {
        const Current call;
        require(out, "phEvent");
        constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
        if ((flags & ~kKnown) != 0) fail(CUDA_ERROR_INVALID_VALUE, "unknown event flags " + hex(flags));
        auto event = std::make_unique<Event>();
        event->context = call.context.get();
        event->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
        *out = reinterpret_cast<CUevent>(event.get());
        call.s.events.emplace(event.get(), std::move(event));
    });
}

PTXEMU_API CUresult CUDAAPI cuEventDestroy_v2(CUevent handle) {
    return guarded("cuEventDestroy", [&] {
        const Current call;
        if (call.s.events.erase(handle) == 0) fail(CUDA_ERROR_INVALID_HANDLE, "no such event");
    });
}

PTXEMU_API CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream) {
    return guarded("cuEventRecord", [&] { record(handle, stream); });
}

PTXEMU_API CUresult CUDAAPI cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags) {
    return guarded("cuEventRecordWithFlags", [&] {
        if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) {
            fail(CUDA_ERROR_INVALID_VALUE, "unknown flags " + hex(flags));
        }
        record(handle, stream);
    });
}

PTXEMU_API CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
    return guarded("cuEventSynchronize", [&] {
        const Current call;
        check_not_captured(call.s, find_event(call.s, handle));
    });
}

PTXEMU_API CUresult CUDAAPI cuEventQuery(CUevent handle) {
    return guarded("cuEventQuery", [&] {
        const Current call;
        check_not_captured(call.s, find_event(call.s, handle));
    });
}

// Host time between two records: the time that the emulator took, not a prediction of a GPU's.
PTXEMU_API CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
    return guarded("cuEventElapsedTime", [&] {
        const Current call;
        require(milliseconds, "pMilliseconds");
        const Event& first = find_event(call.s, begin);
        const Event& last = find_event(call.s, end);
        if (!first.timing || !last.timing) fail(CUDA_ERROR_INVALID_HANDLE, "an event without timing");
        if (!first.recorded || !last.recorded) fail(CUDA_ERROR_INVALID_HANDLE, "an event that was never recorded");
        *milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
    });
}

#undef cuEventElapsedTime
PTXEMU_API CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, begin, end);
}
